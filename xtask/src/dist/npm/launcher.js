#!/usr/bin/env node
// Starts the binary of this platform with the same arguments, input and output, and ends as it ends.
"use strict";

const { spawn } = require("node:child_process");

const platformPackage = `aqueduct-gateway-${process.platform}-${process.arch}`;
const fileName = process.platform === "win32" ? "aqueduct.exe" : "aqueduct";

function binaryPath() {
  try {
    return require.resolve(`${platformPackage}/bin/${fileName}`);
  } catch {
    console.error(
      `aqueduct: the package ${platformPackage} is not installed. Either no binary exists for ${process.platform} on ` +
        `${process.arch}, or optional dependencies were left out: install again without --omit=optional.`,
    );
    process.exit(1);
  }
}

// The name that the program shows in commands to copy: the binary itself is in no folder of PATH.
const argv0 = process.env.npm_command === "exec" ? "npx aqueduct-gateway" : "aqueduct";
let child;
// The terminal sends Ctrl-C to both processes; a supervisor signals only this one. Signals are handled before the binary can print
// that it is ready.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => signal === "SIGINT" || child?.kill(signal));
child = spawn(binaryPath(), process.argv.slice(2), { stdio: "inherit", argv0 });
child.on("error", (error) => {
  console.error(`aqueduct: cannot start the binary: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});

//! [`Invocation`]: a call of another program. It is printed as a line for a shell, and a missing program is an error with a hint.
//!
//! The caller provides the hint what to install; this module installs nothing.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
#[cfg(feature = "dist")]
use std::process::Child;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

/// A program, its arguments, its environment variables and the folder it runs in.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    program: String,
    /// The program as it is printed.
    shown_as: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    folder: PathBuf,
    /// What to install if the program is missing.
    hint: Option<&'static str>,
    /// Set if the program gets the environment variables of this process.
    inherits_env: bool,
    /// The file that gets the output of a call in the background, and the priority of that call.
    background: Option<(PathBuf, Priority)>,
}

/// The priority of a call in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// A tenth of the processor if other programs need all of it.
    Low,
    /// A hundredth of it: what all others leave idle.
    Lowest,
}

impl Priority {
    /// Returns the command that starts a program with this priority.
    fn command(self) -> Command {
        let mut nice = Command::new("nice");
        nice.args(["-n", if self == Self::Low { "10" } else { "19" }]);
        nice
    }
}

impl Invocation {
    /// Returns a call of `program` in `folder`.
    pub(crate) fn new(program: impl Into<String>, folder: &Path) -> Self {
        let program = program.into();
        let shown_as = program.clone();
        Self {
            program,
            shown_as,
            args: Vec::new(),
            env: Vec::new(),
            folder: folder.to_owned(),
            hint: None,
            inherits_env: true,
            background: None,
        }
    }

    /// Returns a call of the cargo that started this program, printed as plain `cargo`.
    pub(crate) fn cargo(folder: &Path) -> Self {
        let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        Self { shown_as: "cargo".to_owned(), ..Self::new(program, folder) }
    }

    /// Adds arguments.
    pub(crate) fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable for the program.
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Passes no environment variable of this process to the program, only those set by [`env`](Self::env).
    #[cfg(feature = "dist")]
    pub(crate) fn without_inherited_env(self) -> Self {
        Self { inherits_env: false, ..self }
    }

    /// Sets the hint for a missing program.
    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Runs the program with that priority, and appends the output of [`run`](Self::run) to the file `log`.
    pub(crate) fn in_background(mut self, log: PathBuf, priority: Priority) -> Self {
        self.background = Some((log, priority));
        self
    }

    /// Runs the program, with the terminal's input and output or with the file of [`in_background`](Self::in_background).
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started, or exits with a failure.
    pub(crate) fn run(&self) -> Result<()> {
        let mut command = self.command();
        if let Some((log, _)) = &self.background {
            let file = std::fs::File::options().create(true).append(true).open(log);
            let mut file = file.with_context(|| format!("cannot write {}", log.display()))?;
            writeln!(file, "$ {self}").with_context(|| format!("cannot write {}", log.display()))?;
            let errors = file.try_clone().with_context(|| format!("cannot write {}", log.display()))?;
            command.stdin(Stdio::null()).stdout(file).stderr(errors);
        }
        let status = command.status();
        self.check(status.map_err(|error| self.explain(&error))?)
    }

    /// Runs the program and returns its standard output. The error contains its standard error, or its output if that is empty.
    pub(crate) fn output(&self) -> Result<String> {
        self.output_with("")
    }

    /// Like [`output`](Self::output), with a text on the standard input.
    pub(crate) fn output_with(&self, input: &str) -> Result<String> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| self.explain(&error))?;
        let stdin = child.stdin.take();
        // A second thread writes the input; otherwise a long input and a long output would deadlock.
        let (written, output) = std::thread::scope(|scope| {
            let writer =
                scope.spawn(move || stdin.map_or(Ok(()), |mut pipe| pipe.write_all(input.as_bytes())));
            let output = child.wait_with_output();
            (writer.join(), output)
        });
        let output = output.with_context(|| format!("cannot read the output of `{self}`"))?;
        if !output.status.success() {
            // Some programs write their errors to the standard output.
            let errors = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
            let errors = String::from_utf8_lossy(errors);
            bail!("`{self}` failed ({}):\n{}", output.status, errors.trim_end());
        }
        // A program may succeed without reading all of its input; only its exit status counts.
        drop(written);
        String::from_utf8(output.stdout).with_context(|| format!("the output of `{self}` is not UTF-8"))
    }

    /// Starts the program without input, with its standard output as a pipe, in a process group of its own: a signal to the
    /// group reaches every process that the program starts.
    #[cfg(feature = "dist")]
    pub(crate) fn spawn(&self) -> Result<Child> {
        let mut command = self.command();
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().map_err(|error| self.explain(&error))
    }

    /// Returns the command to start.
    fn command(&self) -> Command {
        // On Windows npm and npx are scripts, which are found only by their full names.
        let is_script = cfg!(windows) && ["npm", "npx"].contains(&self.program.as_str());
        let mut command = if is_script {
            Command::new(format!("{}.cmd", self.program))
        } else {
            Command::new(&self.program)
        };
        if let (Some((_, priority)), true) = (&self.background, cfg!(unix)) {
            command = priority.command();
            command.arg(&self.program);
        }
        if !self.inherits_env {
            command.env_clear();
        }
        command.args(&self.args).current_dir(&self.folder);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns an error if the program failed.
    fn check(&self, status: ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        bail!("`{self}` failed ({status})")
    }

    /// Returns the error for a program that cannot be started, with the hint if it is missing.
    fn explain(&self, error: &std::io::Error) -> anyhow::Error {
        let program = &self.shown_as;
        match (error.kind(), self.hint) {
            (ErrorKind::NotFound, Some(hint)) => anyhow::anyhow!("{program} not found: {hint}"),
            (ErrorKind::NotFound, None) => {
                anyhow::anyhow!("{program} not found: is it installed and in PATH?")
            }
            _ => anyhow::anyhow!("cannot start {program}: {error}"),
        }
    }
}

impl fmt::Display for Invocation {
    /// Writes the call as a line for a shell, without the change to its folder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "{}", quoted(&self.shown_as))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// Quotes a word for a shell, if needed.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_as_a_line_for_the_shell() {
        let call =
            Invocation::new("prog", Path::new(".")).args(["-E", "not test(a)"]).env("FLAGS", "-D warnings");
        assert_eq!(call.to_string(), "FLAGS='-D warnings' prog -E 'not test(a)'");
    }

    #[test]
    #[cfg(unix)]
    fn a_call_in_the_background_has_a_low_priority_and_writes_to_its_file() {
        let log = std::env::temp_dir().join(format!("aqueduct-invocation-{}", std::process::id()));
        let own: i32 = Invocation::new("nice", Path::new(".")).output().unwrap().trim().parse().unwrap();
        let call = |priority| Invocation::new("sh", Path::new(".")).in_background(log.clone(), priority);
        call(Priority::Low).args(["-c", "nice; echo wrong >&2"]).run().unwrap();
        let written = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        let priority = (own + 10).min(19);
        assert_eq!(written, format!("$ sh -c 'nice; echo wrong >&2'\n{priority}\nwrong\n"));
        assert_eq!(call(Priority::Lowest).args(["-c", "nice"]).output().unwrap(), "19\n");
    }

    #[test]
    fn a_missing_program_is_named_with_the_hint() {
        let call = Invocation::new("no-such-program-here", Path::new(".")).hint("install it");
        assert_eq!(call.run().unwrap_err().to_string(), "no-such-program-here not found: install it");
    }

    #[test]
    fn a_failing_program_is_an_error_with_its_complaint() {
        let error = Invocation::cargo(Path::new(".")).args(["no-such-subcommand"]).output().unwrap_err();
        assert!(error.to_string().contains("no such command"), "{error}");
    }
}

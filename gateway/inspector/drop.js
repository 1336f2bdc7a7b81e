// Recordings from files: dropped anywhere on the page, or chosen.

import { byId } from "./dom.js";

export class Drop {
  #depth = 0;

  constructor(onFile) {
    this.veil = byId("veil");
    this.onFile = onFile;
    const input = byId("file");
    byId("open-file").addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      if (input.files[0]) onFile(input.files[0]);
      input.value = "";
    });
    addEventListener("dragenter", (event) => this.#over(event, 1));
    addEventListener("dragleave", (event) => this.#over(event, -1));
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      this.#depth = 0;
      this.veil.hidden = true;
      const [file] = event.dataTransfer?.files ?? [];
      if (file) onFile(file);
    });
  }

  /** Enter and leave come for every element that is crossed. */
  #over(event, step) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    this.#depth = Math.max(0, this.#depth + step);
    this.veil.hidden = this.#depth === 0;
  }
}

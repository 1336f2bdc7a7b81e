// Tabs as the ARIA pattern wants them: arrows move, the chosen one alone is in the tab order.

export class Tabs {
  constructor(list, onShow) {
    this.tabs = [...list.querySelectorAll("[role=tab]")];
    this.onShow = onShow;
    for (const tab of this.tabs) tab.addEventListener("click", () => this.show(tab.id));
    list.addEventListener("keydown", (event) => {
      const here = this.tabs.indexOf(document.activeElement);
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? this.tabs.length - 1 : here + step;
      if (here < 0 || Number.isNaN(to)) return;
      event.preventDefault();
      const next = this.tabs[(to + this.tabs.length) % this.tabs.length];
      this.show(next.id);
      next.focus();
    });
  }

  show(id) {
    for (const tab of this.tabs) {
      const chosen = tab.id === id;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
    this.onShow(id);
  }
}

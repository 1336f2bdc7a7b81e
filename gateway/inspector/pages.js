// The pages of the inspector by the part of the address after `#`, so that each has a link and the back button works.
//
//   #            the conversation       #/runs?agent=…&outcome=…   runs that pass these filters
//   #/run/ID     one run of the log     #/compare/ID/ID            two of them side by side
//   #/agents     agents and their health

import { byId } from "./dom.js";

const PAGES = { "": "page-live", run: "page-live", runs: "page-runs", compare: "page-compare", agents: "page-agents" };
/** The link of the bar that stands for a page. */
const LINKS = { "page-live": "", "page-runs": "runs", "page-compare": "runs", "page-agents": "agents" };

/** `{ page, parts, query }` of an address. Pure. */
export function placeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...parts] = path.split("/").map(decodeURIComponent);
  return { page: Object.hasOwn(PAGES, page) ? page : "", parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a page. Pure. */
export function addressOf(page, parts = [], query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined)).toString();
  return `#/${[page, ...parts].map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`;
}

export class Pages {
  constructor(onShow) {
    this.onShow = onShow;
    addEventListener("hashchange", () => this.show());
  }

  get place() {
    return placeOf(location.hash);
  }

  go(page, parts, query) {
    const address = page === "" ? "#" : addressOf(page, parts, query);
    if (location.hash === address || (address === "#" && location.hash === "")) this.show();
    else location.hash = address;
  }

  /** Changes the address without another entry in the history. */
  note(page, parts, query) {
    history.replaceState(null, "", addressOf(page, parts, query));
  }

  show() {
    const { place } = this;
    for (const id of new Set(Object.values(PAGES))) byId(id).hidden = PAGES[place.page] !== id;
    for (const link of document.querySelectorAll("nav a")) {
      const isHere = link.dataset.page === LINKS[PAGES[place.page]];
      if (isHere) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.onShow(place);
  }
}

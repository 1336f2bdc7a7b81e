// The beginning of the page.

import { App } from "./app.js";

new App().begin();

// When to try again: waits that double from try to try, spread by chance so that many clients do not come back at once.

const DEFAULTS = { attempts: 8, firstDelayMs: 250, maxDelayMs: 15_000 };

export class RetryBudget {
  #settings;
  #random;
  #used = 0;

  constructor(settings = {}, random = Math.random) {
    this.#settings = { ...DEFAULTS, ...settings };
    this.#random = random;
  }

  /** Something arrived: the next trouble is a new one. */
  reset() {
    this.#used = 0;
  }

  /** Milliseconds to wait before the next try, or undefined if there is none. A server that says when is believed. */
  next(serverSaysMs) {
    const { attempts, firstDelayMs, maxDelayMs } = this.#settings;
    if (this.#used >= attempts) return undefined;
    const ceiling = Math.min(maxDelayMs, firstDelayMs * 2 ** this.#used);
    this.#used += 1;
    const drawn = ceiling / 2 + (this.#random() * ceiling) / 2;
    return Math.min(maxDelayMs, Math.max(drawn, serverSaysMs ?? 0));
  }
}

/** Waits, unless the signal is aborted. */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(abortReason(signal));
    const stop = () => {
      clearTimeout(timer);
      reject(abortReason(signal));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}

/** What a `fetch` that is aborted throws. */
export function abortReason(signal) {
  return signal.reason ?? new DOMException("This operation was aborted", "AbortError");
}

// One live link a page: a WebSocket while it works, else polling of the same JSON, else a pill that says stale.
// Always true: a delta is applied only if it continues what is already on the page; a gap is fetched, never skipped.
// A page that nobody looks at applies nothing: what it missed is one gap.

const PING_MS = 20_000;
const PONG_MS = 10_000;
const POLL_MS = 5_000;
const STALE_MS = 15_000;
const FIRST_BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 30_000;
const FAILURES_BEFORE_POLLING = 3;

/** Exponential, with full jitter, so that many pages do not come back in one moment. */
export function backoff(failures, random = Math.random) {
  const ceiling = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** failures);
  return ceiling / 2 + random() * (ceiling / 2);
}

export class Live {
  /** `apply(delta)` puts news on the page; `show(state, since)` sets the pill: live, polling or stale. */
  constructor({ socketUrl, pollUrl, seq, apply, show }) {
    Object.assign(this, { socketUrl, pollUrl, seq, apply, show });
    this.failures = 0;
    this.socket = null;
    this.heard = Date.now();
    this.timers = new Set();
    this.fetching = false;
  }

  start() {
    this.open();
    setInterval(() => this.look(), 1000);
    document.addEventListener("visibilitychange", () => this.visible());
    addEventListener("online", () => this.retryNow());
  }

  open() {
    this.clearTimers();
    const address = new URL(this.socketUrl, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    address.searchParams.set("since", String(this.seq));
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.addEventListener("open", () => this.opened(socket));
    socket.addEventListener("message", (event) => this.receive(socket, event));
    socket.addEventListener("close", () => this.closed(socket));
  }

  opened(socket) {
    if (socket !== this.socket) return;
    this.failures = 0;
    this.hear();
    this.later(PING_MS, () => this.ping(socket));
  }

  ping(socket) {
    if (socket !== this.socket || socket.readyState !== WebSocket.OPEN) return;
    socket.send('{"type":"ping"}');
    this.pong = this.later(PONG_MS, () => socket.close());
    this.later(PING_MS, () => this.ping(socket));
  }

  receive(socket, event) {
    if (socket !== this.socket) return;
    this.hear();
    const message = JSON.parse(event.data);
    if (message.type === "pong") {
      clearTimeout(this.pong);
      return;
    }
    this.take(message);
  }

  take(delta) {
    if (document.hidden) return;
    if (delta.resync) {
      location.reload();
      return;
    }
    if (delta.seq < this.seq) return; // older than what the page shows
    if (delta.prev_seq > this.seq) {
      this.fetchGap();
      return;
    }
    this.seq = delta.seq;
    this.apply(delta);
  }

  async fetchGap() {
    if (this.fetching) return;
    this.fetching = true;
    const delta = await this.ask().catch(() => null); // the pill turns stale by itself; the next turn or delta asks again
    this.fetching = false;
    if (!delta) return;
    this.hear();
    this.take({ ...delta, prev_seq: Math.min(delta.prev_seq, this.seq) });
  }

  /** What the page does not show yet. */
  async ask() {
    const address = new URL(this.pollUrl, location.href);
    address.searchParams.set("since", String(this.seq));
    const answer = await fetch(address, { headers: { Accept: "application/json" }, cache: "no-store" });
    if (answer.status === 404 || answer.redirected) {
      location.reload(); // no longer ours to see, or signed out: the server says it best
      return null;
    }
    if (!answer.ok) throw new Error(`live: ${answer.status}`);
    return answer.json();
  }

  closed(socket) {
    if (socket !== this.socket) return;
    this.clearTimers();
    this.failures += 1;
    this.later(backoff(this.failures), () => this.open());
    if (this.failures >= FAILURES_BEFORE_POLLING) this.poll();
  }

  async poll() {
    if (this.socket?.readyState === WebSocket.OPEN) return;
    if (!document.hidden) await this.fetchGap();
    clearTimeout(this.pollTimer);
    this.pollTimer = setTimeout(() => this.poll(), POLL_MS);
  }

  visible() {
    if (document.hidden) return;
    this.retryNow();
    this.fetchGap();
  }

  retryNow() {
    if (this.socket?.readyState === WebSocket.OPEN || this.socket?.readyState === WebSocket.CONNECTING) return;
    this.open();
  }

  hear() {
    this.heard = Date.now();
    this.look();
  }

  look() {
    const open = this.socket?.readyState === WebSocket.OPEN;
    if (open) this.show("live", this.heard);
    else if (Date.now() - this.heard > STALE_MS) this.show("stale", this.heard);
    else if (this.failures >= FAILURES_BEFORE_POLLING) this.show("polling", this.heard);
  }

  later(ms, act) {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      act();
    }, ms);
    this.timers.add(timer);
    return timer;
  }

  clearTimers() {
    this.timers.forEach(clearTimeout);
    this.timers.clear();
  }
}

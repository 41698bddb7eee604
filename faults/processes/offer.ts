import { waitedMs } from '../../harness/measuring/cpu.ts';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { type LoadAnswer, LoadConnection } from '../../harness/measuring/load_connection.ts';
import { percentile } from '../../harness/measuring/statistics.ts';

/** The interval at which due requests are sent. */
const TICK_MS = 5;
/** Connections that are opened at a time. */
const CONNECTING = 50;
const ANSWERED_WITHIN_MS = 60_000;

export interface OfferPlan {
  port: number;
  path: string;
  authorization: string;
  /** Part of the events' URLs. */
  name: string;
  /** Events of a POST. */
  perPost: number;
  seconds: number;
  /** Connections; all are open before the first POST. */
  connections: number;
  /** POSTs a second, whether or not answers come; without it, each connection waits for its answer. */
  perSecond?: number;
  /**
   * The server's pid. If given, the times of answers do not include the time during which the server was ready to run
   * but had no CPU.
   */
  serverPid?: number;
}

export interface Offered {
  /** Number of POSTs that were sent. */
  sent: number;
  /** Number of POSTs that were due while all connections were busy. They were not sent. */
  held: number;
  /** The numbers of the POSTs that were accepted. */
  accepted: number[];
  refused: number;
  /** The times of refusals. */
  refusedP99Ms: number;
  refusedMaxMs: number;
  /** Counts of answers other than 204, or 503 with Retry-After. */
  wrong: Map<string, number>;
}

export type OfferCalls = { offer: typeof offer };

async function offer(plan: OfferPlan): Promise<Offered> {
  return new Offer(plan).run();
}

class Offer {
  readonly #plan: OfferPlan;
  #free: LoadConnection[] = [];
  readonly #refusedMs: number[] = [];
  readonly #result: Offered = {
    ...{ sent: 0, held: 0, accepted: [], refused: 0, refusedP99Ms: 0, refusedMaxMs: 0, wrong: new Map() },
  };
  #underWay = 0;
  #over = false;

  constructor(plan: OfferPlan) {
    this.#plan = plan;
  }

  async run(): Promise<Offered> {
    const { perSecond, seconds, connections } = this.#plan;
    await this.#connect(connections);
    const endMs = performance.now() + seconds * 1000;
    if (perSecond === undefined) for (let n = 0; n < connections; n++) this.#send();
    else await this.#pace(perSecond, endMs);
    await untilTime(endMs);
    this.#over = true;
    const limitMs = performance.now() + ANSWERED_WITHIN_MS;
    while (this.#underWay > 0 && performance.now() < limitMs) await untilTime(performance.now() + TICK_MS);
    if (this.#underWay > 0) this.#result.wrong.set('no answer', this.#underWay);
    for (const connection of this.#free) connection.close();
    const refusedMs = Float64Array.from(this.#refusedMs);
    this.#result.refusedP99Ms = percentile(refusedMs, 0.99);
    this.#result.refusedMaxMs = percentile(refusedMs, 1);
    return this.#result;
  }

  async #pace(perSecond: number, endMs: number): Promise<void> {
    const beganMs = performance.now();
    let due = 0;
    for (let nowMs = beganMs; nowMs < endMs; nowMs = performance.now()) {
      for (; due < ((nowMs - beganMs) * perSecond) / 1000; due++) if (!this.#send()) this.#result.held++;
      await untilTime(nowMs + TICK_MS);
    }
  }

  async #connect(connections: number): Promise<void> {
    while (this.#free.length < connections) {
      const some = Array.from({ length: Math.min(CONNECTING, connections - this.#free.length) });
      this.#free.push(...(await Promise.all(some.map(() => LoadConnection.open(this.#plan.port)))));
    }
  }

  /** Returns whether a connection was free. */
  #send(): boolean {
    // Uses all connections in turn: a server ends a connection that is silent for half a minute.
    const connection = this.#free.shift();
    if (!connection) return false;
    const post = this.#result.sent++;
    const sentMs = this.#nowMs();
    this.#underWay++;
    connection.send(this.#request(post), (answer) => {
      this.#underWay--;
      this.#note(post, answer, this.#nowMs() - sentMs);
      if (connection.open) this.#free.push(connection);
      else void this.#reconnect();
      if (this.#plan.perSecond === undefined && !this.#over) this.#send();
    });
    return true;
  }

  async #reconnect(): Promise<void> {
    if (!this.#over) this.#free.push(await LoadConnection.open(this.#plan.port));
  }

  #nowMs(): number {
    const { serverPid } = this.#plan;
    return performance.now() - (serverPid === undefined ? 0 : waitedMs(serverPid));
  }

  #note(post: number, { status, text }: LoadAnswer, ms: number): void {
    const { accepted, wrong } = this.#result;
    const retryAfter = /\r\nretry-after: *[1-9]/i.test(text);
    if (status === 204) {
      accepted.push(post);
    } else if (status === 503 && retryAfter) {
      this.#result.refused++;
      this.#refusedMs.push(ms);
    } else {
      const what = status === 0 ? text : `${status} ${retryAfter ? 'with' : 'without'} Retry-After`;
      wrong.set(what, (wrong.get(what) ?? 0) + 1);
    }
  }

  #request(post: number): string {
    const { port, path, authorization, name, perPost } = this.#plan;
    const about = `https://shop.example.com/${name}/${post}`;
    const events = Array.from({ length: perPost }, (_, n) => `{"type":"create","url":"${about}/${n}"}`);
    const body = `[${events.join(',')}]`;
    const lines = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n`;
    return `${lines}Content-Length: ${body.length}\r\nAuthorization: ${authorization}\r\n\r\n${body}`;
  }
}

function untilTime(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms - performance.now())));
}

serveCalls({ offer } satisfies OfferCalls);

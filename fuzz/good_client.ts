import { waitedMs } from '../harness/measuring/cpu.ts';
import { type LoadAnswer, LoadConnection, refusalOf } from '../harness/measuring/load_connection.ts';
import { sleep } from '../src/clock.ts';

/** The pause between two publishes. */
const EVERY_MS = 4;

/** A well-behaved publisher that measures its answers. */
export class GoodClient {
  readonly #request: string;
  readonly #port: number;
  readonly #pids: readonly number[];

  /**
   * `pids`: the processes of the bus, and our own. Times during which they were ready to run and had no CPU are
   * subtracted.
   */
  constructor(port: number, authorization: string, pids: readonly number[]) {
    const body = '{"type":"noop","url":"https://good.example/1"}';
    const head = ['POST /topics/good HTTP/1.1', 'Host: bus', `Authorization: ${authorization}`];
    this.#request = `${head.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    this.#port = port;
    this.#pids = pids;
  }

  /** Publishes until `over` settles; resolves with the times to the answers, in ms. Throws if one is not 2xx. */
  async publishUntil(over: Promise<unknown>): Promise<number[]> {
    const connection = await LoadConnection.open(this.#port);
    const timesMs: number[] = [];
    let isOver = false;
    const end = over.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      const sentMs = this.#nowMs();
      const answer = await new Promise<LoadAnswer>((answered) => connection.send(this.#request, answered));
      const refusal = refusalOf(answer);
      if (refusal) throw refusal;
      timesMs.push(Math.max(0, this.#nowMs() - sentMs));
      await sleep(EVERY_MS);
    }
    connection.close();
    await end;
    return timesMs;
  }

  #nowMs(): number {
    return performance.now() - this.#pids.reduce((sum, pid) => sum + waitedMs(pid), 0);
  }
}

import { waitedMs } from '../harness/measuring/cpu.ts';
import { LoadConnection } from '../harness/measuring/load_connection.ts';
import { pause } from '../src/clock.ts';

/** How often it publishes, answered or not. */
const EVERY_MS = 4;

/** A publisher that means well, and notes how long its answers take. */
export class GoodClient {
  readonly #request: string;
  readonly #port: number;
  readonly #pids: readonly number[];

  /** `pids`: the processes of the bus, and ours. Of times is left out for how long these were ready to run and had no CPU. */
  constructor(port: number, authorization: string, pids: readonly number[]) {
    const body = '{"type":"noop","url":"https://good.example/1"}';
    const head = ['POST /topics/good HTTP/1.1', 'Host: bus', `Authorization: ${authorization}`];
    this.#request = `${head.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    this.#port = port;
    this.#pids = pids;
  }

  /** The times of its answers, in ms, until `over` settles. Throws at whatever is no 2xx. */
  async publishUntil(over: Promise<unknown>): Promise<number[]> {
    const connection = await LoadConnection.open(this.#port);
    const timesMs: number[] = [];
    let isOver = false;
    const end = over.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      const sentMs = this.#nowMs();
      await new Promise<void>((answered, failed) => {
        connection.on(answered, failed);
        connection.send(this.#request);
      });
      timesMs.push(Math.max(0, this.#nowMs() - sentMs));
      await pause(EVERY_MS);
    }
    connection.close();
    await end;
    return timesMs;
  }

  #nowMs(): number {
    return performance.now() - this.#pids.reduce((sum, pid) => sum + waitedMs(pid), 0);
  }
}

import assert from 'node:assert/strict';
import { until } from '../../harness/until.ts';
import type { Bus } from '../bus.ts';
import { startFullBus } from '../full_bus.ts';
import { measureInTurn, type Part } from '../part.ts';
import type { Figures } from '../result.ts';
import { loginToConsole } from './console.ts';

/** Letters of a subscriber. A lane of the full bus has room for 250 batches. */
const EACH = 200;
const FULL = { queued: 1000, records: 0, subscribers: 501, deadLetters: EACH };
const QUICK: typeof FULL = { queued: 20, records: 0, subscribers: 3, deadLetters: 10 };
const BULK = '/console/dead_letters/bulk';
const PATIENCE = { timeoutMs: 600_000, everyMs: 10 };
/** The gauge of queued batches by subscriber, as the Ruby Routemaster called it. */
const QUEUED = 'batches:gauges:batch';

/**
 * Retries all dead letters from the page of the console: counts them first, kills the worker with SIGKILL when a tenth
 * is done, and starts another one. Nobody looks at the page meanwhile but this part, which comes back to it. Fails
 * unless exactly the counted letters are queued at the end, and none is left. Subscribers are paused, so nothing is
 * delivered.
 */
export const retryAll: Part = {
  name: 'retry-all',
  title: 'retry of 100,000 dead letters from the console, with a worker killed in between',
  run: async (stage, options) => {
    const size = options.quick ? QUICK : FULL;
    const letters = (size.subscribers - 1) * size.deadLetters;
    const { bus, clients } = await startFullBus(stage, size);
    for (const { token } of clients) await bus.root.call('POST', `/subscribers/${token}/pause`);
    await bus.store.keep();
    const row = `${letters.toLocaleString('en')} letters`;
    const plan = {
      title: 'retry-all: from the page',
      notes: ['a worker is killed when a tenth is done; seconds from the confirmation to the end'],
      cases: [{ row, measure: () => measure(bus, letters, !options.quick) }],
    };
    return measureInTurn('retry-all', [plan], options);
  },
};

/** `isLong`: the retry must still be under way when the worker is killed. */
async function measure(bus: Bus, letters: number, isLong: boolean): Promise<Figures> {
  await bus.store.restore();
  const page = new BulkPage(`http://127.0.0.1:${bus.port}`, await loginToConsole(bus.port));
  const before = await queued(bus);
  const first = await bus.readyWorker();
  await page.post('', { do: 'retry' });
  const counted = `${letters.toLocaleString('en')} dead letters match`;
  await page.says(counted);
  assert.equal(await queued(bus), before, 'letters were retried before the confirmation');
  await page.post('/confirm', { id: await page.id() });
  const beganMs = performance.now();
  await until(async () => (await queued(bus)) >= before + letters / 10, {
    ...PATIENCE,
    what: 'a tenth is retried',
  });
  await first.kill();
  assert.ok(!isLong || (await queued(bus)) < before + letters, 'the worker was killed too late');
  const second = bus.worker();
  const ended = `Retried ${letters.toLocaleString('en')} dead letters`;
  await page.says(ended);
  const seconds = (performance.now() - beganMs) / 1000;
  assert.equal(await queued(bus), before + letters, 'other than the counted letters were queued');
  assert.deepEqual(await bus.root.call('GET', '/dead_letters?limit=1'), []);
  await second.stop();
  return { seconds };
}

async function queued(bus: Bus): Promise<number> {
  const gauge = (await bus.store.call('HVALS', QUEUED)) as unknown[];
  return gauge.reduce<number>((sum, each) => sum + Number(each), 0);
}

/** The page of a bulk, as a browser without scripts uses it. */
class BulkPage {
  readonly #url: string;
  readonly #cookie: string;

  constructor(url: string, cookie: string) {
    this.#url = url;
    this.#cookie = cookie;
  }

  /** Resolves when the page has this headline. */
  async says(headline: string): Promise<void> {
    const isThere = async () => (await this.#read()).includes(`<h1>${headline}</h1>`);
    await until(isThere, { ...PATIENCE, what: `the page says: ${headline}` });
  }

  async id(): Promise<string> {
    return /name="id" value="([^"]+)"/.exec(await this.#read())?.[1] ?? '';
  }

  async post(path: string, fields: Record<string, string>): Promise<void> {
    const form_token = /name="form_token" value="([^"]+)"/.exec(await this.#read())?.[1] ?? '';
    const response = await fetch(`${this.#url}${BULK}${path}`, {
      ...{ method: 'POST', body: new URLSearchParams({ form_token, ...fields }), redirect: 'manual' },
      headers: { cookie: this.#cookie, 'sec-fetch-site': 'same-origin' },
    });
    if (response.status !== 303) throw new Error(`${BULK}${path} answered ${response.status}`);
  }

  async #read(): Promise<string> {
    const response = await fetch(this.#url + BULK, { headers: { cookie: this.#cookie } });
    return response.text();
  }
}

import { BusClient, type Credentials } from '../../harness/http/bus_client.ts';
import { percentile } from '../../harness/measuring/statistics.ts';
import { startFullBus } from '../full_bus.ts';
import type { Options } from '../options.ts';
import { measureInTurn, type Part, type Plan } from '../part.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted } from '../workload.ts';

const FULL = { queued: 1_000_000, records: 100_000, subscribers: 1000, deadLetters: 1, calls: 20 };
const QUICK: typeof FULL = { queued: 2_000, records: 500, subscribers: 5, deadLetters: 1, calls: 3 };
const MAX_MS = 20;

/** Measures how long a listing takes beside a million queued batches. */
export const deliveryListing: Part = {
  name: 'delivery-listing',
  title: 'listings of deliveries beside a million queued batches',
  run: async (stage, options) =>
    measureInTurn('delivery-listing', [await listingPlan(stage, options)], options),
};

/** The listings of root and of a client. */
async function listingPlan(stage: Stage, { quick }: Pick<Options, 'quick'>): Promise<Plan> {
  const size = quick ? QUICK : FULL;
  const queued = `${size.queued.toLocaleString('en')} queued batches`;
  process.stderr.write(`delivery-listing: prepares a bus with ${queued} … `);
  const { bus, clients, middleMs } = await startFullBus(stage, size);
  process.stderr.write('done\n');
  const client = clients[1] as Credentials;
  const [root, own] = [bus.root, new BusClient(`http://127.0.0.1:${bus.port}`, client)];
  const queries: [row: string, client: BusClient, path: string][] = [
    ['all', root, '/deliveries'],
    ...['open', 'ready', 'in_flight', 'retrying', 'paused', 'taken', 'dead', 'dropped'].map(
      (state) => [state, root, `/deliveries?state=${state}`] as [string, BusClient, string],
    ),
    ['of a subscriber', root, `/deliveries?subscriber=${client.token}`],
    ['taken, until the middle', root, `/deliveries?state=taken&until=${middleMs}`],
    ['of a client', own, '/deliveries'],
    ['taken, of a client', own, '/deliveries?state=taken'],
    ['one that there is not', root, `/deliveries/${'-'.repeat(20)}`],
  ];
  return {
    title: 'delivery-listing: pages of 100',
    notes: [
      `${queued}, ${counted(size.records, 'record')}, ${counted(size.subscribers, 'subscriber')}`,
      `read one after the other, ${size.calls} times`,
    ],
    cases: queries.map(([row, client, path]) => ({ row, measure: () => measure(client, path, size.calls) })),
    targets: queries.map(([row]) => ({
      text: `${row}: ≤ ${MAX_MS} ms`,
      bars: [{ row, metric: 'p50Ms' as const, max: MAX_MS }],
    })),
  };
}

async function measure(client: BusClient, path: string, calls: number): Promise<Figures> {
  const tookMs = new Float64Array(calls);
  for (let i = 0; i < calls; i++) {
    const beganMs = performance.now();
    // A batch that does not exist is answered 404, which is timed too.
    await client.call('GET', path).catch(() => undefined);
    tookMs[i] = performance.now() - beganMs;
  }
  return { p50Ms: percentile(tookMs, 0.5), p99Ms: percentile(tookMs, 0.99) };
}

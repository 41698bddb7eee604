import { cpuSince } from '../../harness/measuring/cpu.ts';
import { newSecret } from '../../src/subscribing/signing_keys.ts';
import { measureInTurn, type Part } from '../part.ts';
import type { ReceiverHostCalls, Receiving } from '../processes/receiver_host.ts';
import type { ReceiverLoadCalls } from '../processes/receiver_load.ts';

const CONNECTIONS = 16;
const MAX = 10;
const BY_HAND = 'by hand';
const ROWS: readonly Receiving[] = [
  BY_HAND,
  'by receiver',
  'by receiver, signed',
  'by receiver, signed, no repeats',
];

/** Batches received by `@routemaster/receiver`. */
export const receiver: Part = {
  name: 'receiver',
  title: 'batches received by @routemaster/receiver; beside a server that only parses them',
  run: async (stage, options) => {
    const batches = options.quick ? 200 : 20_000;
    const host = stage.helper<ReceiverHostCalls>('receiver_host.ts');
    const load = stage.helper<ReceiverLoadCalls>('receiver_load.ts');
    const signingSecret = newSecret();
    const measure = async (how: Receiving) => {
      const port = await host.call('receive', how, signingSecret);
      const plan = { port, signingSecret, connections: CONNECTIONS, max: MAX };
      await load.call('deliver', { ...plan, batches: batches / 10 }); // warms up
      const used = cpuSince({ receiver: host.pid });
      const { seconds, p50Ms, p99Ms } = await load.call('deliver', { ...plan, batches });
      return {
        batchesPerSecond: batches / seconds,
        receiverMicrosBatch: used().receiver / batches,
        p50Ms,
        p99Ms,
      };
    };
    const cases = ROWS.map((row) => ({
      row,
      floors: row === BY_HAND ? [] : [BY_HAND],
      measure: () => measure(row),
    }));
    return measureInTurn('receiver', [{ ...PLAN, cases }], options);
  },
};

const PLAN = {
  title: `receiver: batches of ${MAX} events over ${CONNECTIONS} connections`,
  notes: ['latency from the POST to its answer; the load signs batches in a process of its own'],
  targets: [
    {
      text: 'signed batches a second, without repeats ≥ 1,000',
      bars: [{ row: 'by receiver, signed, no repeats', metric: 'batchesPerSecond' as const, min: 1000 }],
    },
  ],
};

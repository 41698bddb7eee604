import { measureInTurn, type Part } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import { installRivals } from '../rival.ts';
import { accepting } from './rivals_accepting.ts';
import { delivering } from './rivals_delivering.ts';

const FULL = { requests: 15_000, arrays: 300, delivered: 20_000, batches: 600, perSecond: 100, seconds: 6 };
const QUICK: typeof FULL = {
  requests: 200,
  arrays: 4,
  delivered: 300,
  batches: 80,
  perSecond: 100,
  seconds: 1,
};

/** Compares the bus with BullMQ, which does the same work on the same machine with the same Redis. */
export const rivals: Part = {
  name: 'rivals',
  title: 'the same work done with BullMQ',
  run: async (stage, options) => {
    installRivals();
    const size = options.quick ? QUICK : FULL;
    const load = stage.helper<LoadCalls>('load.ts');
    const plans = [
      ...(await accepting(stage, load, size, options)),
      ...(await delivering(stage, load, size, options)),
    ];
    return measureInTurn('rivals', plans, options);
  },
};

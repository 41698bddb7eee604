import { basename } from 'node:path';
import { Bus, OWN_TREE } from '../bus.ts';
import { CONNECTIONS, type DeliveryParts, LATENCY, measureBus, measureFloor } from '../delivery.ts';
import type { Options } from '../options.ts';
import type { SenderCalls } from '../processes/floor_sender.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import { announced } from '../progress.ts';
import type { Row, Table } from '../result.ts';
import type { Stage } from '../stage.ts';

/** Events of a backlog, by the size of its batches. */
const EVENTS = { 1: 50_000, 100: 400_000 };
const FEWEST_BATCHES = 10 * CONNECTIONS;
const FLOOR = 'undici';

interface Tree {
  row: Row;
  bus: Bus;
}

/** A backlog, delivered as fast as it goes; then the latency of single events. */
export async function deliver(stage: Stage, options: Options): Promise<Table[]> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const parts: DeliveryParts = {
    load: stage.helper<LoadCalls>('load.ts'),
    sink,
    sender: stage.helper<SenderCalls>('floor_sender.ts'),
    sinkPort: await sink.call('listen'),
  };
  const trees = [OWN_TREE, ...(options.against ? [options.against] : [])];
  const buses = await Promise.all(trees.map((tree) => Bus.start(stage, tree)));
  const tables: Table[] = [];
  for (const max of [1, 100] as const) {
    const names = trees.map((tree, index) => (index === 0 ? 'bus' : `bus of ${basename(tree)}`));
    const rows = names.map(
      // This checkout's bus is compared with the other one, too.
      (name, index): Row => ({ name, floors: [FLOOR, ...names.slice(index + 1)], repetitions: [] }),
    );
    const table = buses.map((bus, index) => ({ bus, row: rows[index] as Row }));
    tables.push(await deliverInBatches(parts, table, max, options));
  }
  return tables;
}

async function deliverInBatches(
  parts: DeliveryParts,
  trees: Tree[],
  max: 1 | 100,
  { events = EVENTS[max], repetitions }: Options,
): Promise<Table> {
  const floor: Row = { name: FLOOR, repetitions: [] };
  // Full batches: others would wait for their deadline, which is far away. And more than are under way at a time.
  const backlog = Math.max(Math.ceil(events / max), FEWEST_BATCHES) * max;
  for (let repetition = 1; repetition <= repetitions; repetition++) {
    const what = (row: Row) => `deliver ${repetition}/${repetitions}, max ${max}: ${row.name}`;
    for (const { row, bus } of trees) {
      row.repetitions.push(await announced(what(row), () => measureBus(parts, bus, max, backlog)));
    }
    floor.repetitions.push(await announced(what(floor), () => measureFloor(parts, max, backlog)));
  }
  return {
    title: `deliver: batches of ${max}, one subscriber`,
    notes: [
      `${backlog.toLocaleString('en')} events a repetition, all published before the first of them is delivered`,
      `latency from publish to receipt at ${LATENCY.perSecond} events/s with timeout 0; of ${FLOOR}: of a POST to the subscriber itself`,
    ],
    rows: [floor, ...trees.map(({ row }) => row)],
  };
}

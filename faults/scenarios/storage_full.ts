import { isDeepStrictEqual } from 'node:util';
import type { Client } from '../../harness/http/client.ts';
import { answer } from '../../harness/http/receiver.ts';
import { jobName } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { sleep } from '../../src/clock.ts';
import { readMemory } from '../../src/store/memory.ts';
import { DropBooks } from '../drop_books.ts';
import { Flood } from '../flood.ts';
import type { Lab } from '../lab.ts';
import type { Scenario } from '../scenario.ts';

const MIB = 1024 * 1024;
const MAX_MEMORY = 24 * MIB;
const MIN_FREE = 4 * MIB;
const TIMES = 3;
const SUBSCRIBERS = {
  search: { topics: ['widgets', 'gadgets'], max: 25 },
  mail: { topics: ['widgets'], max: 10 },
  audit: { topics: ['gadgets'], max: 7 },
};
/** The fraction of the events that is published before any delivery is taken. */
const FIRST = 2 / 3;
const COPIES = 2;
/** With fewer events, each would need more data than the bus allows. */
const MIN_EVENTS = 2000;
/** Maximum batches of a failing subscriber under delivery. They are not dropped, even if they are the oldest. */
const IN_FLIGHT = 1;

/**
 * First one publisher fills the storage while nobody takes anything; then several publish while subscribers fail and
 * are slow.
 */
export const storageFull: Scenario = {
  name: 'storage-full',
  title: `publishers send three times what fits into Redis (maxmemory ${MAX_MEMORY / MIB} MiB)`,
  events: { full: 60_000, quick: 3000 },
  bus: {
    redis: { maxmemory: String(MAX_MEMORY) },
    env: { ROUTEMASTER_REDIS_MIN_FREE: String(MIN_FREE), ROUTEMASTER_DROP_POLICY: 'oldest' },
  },
  async run(lab) {
    const processes = [await lab.start('web'), await lab.start('worker')];
    const readers = await subscribe(lab);
    const events = Math.max(lab.events, MIN_EVENTS);
    const maxDataBytes = (2 * TIMES * MAX_MEMORY) / (events * FIRST * COPIES);
    const books = readers.map((reader) => reader.books);
    const flood = new Flood(lab, await lab.bus.client('publisher'), books, maxDataBytes);

    for (const { books } of readers) books.receiver.usual = answer.status(503);
    const watch = watchOldest(readers);
    await flood.publish(Math.ceil(events * FIRST), 1);
    await dropsAreOver(lab, flood);
    const grewOlder = await watch();
    // With several partitions, events that were accepted first may still be in an outbox when later ones are dropped.
    const isInOrder = lab.bus.partitions.all.length === 1;
    if (isInOrder) {
      lab.bar('the oldest queued batch never gets older', grewOlder.length === 0);
      const text = 'the oldest batches are dropped first, over all subscribers';
      lab.bar(text, await oldestWentFirst(lab, readers));
    }
    for (const { books } of readers) books.receiver.usual = answer.status(204);
    await lab.settle();
    const outlived = readers.map(({ books }) => books.outlived().length);
    const text = 'what a subscriber misses is what was accepted first, but for a batch in a worker’s hands';
    if (isInOrder) lab.bar(text, Math.max(...outlived) <= IN_FLIGHT, `${outlived} outlived newer ones`);
    lab.say(`first: ${describe(flood, readers)}`);

    const random = lab.random.fork('answers');
    for (const { books } of readers)
      books.receiver.usual = (response) => {
        const reaction = answer.status(random.chance(0.7) ? 503 : 204);
        setTimeout(() => reaction(response), random.between(0, 500));
      };
    await flood.publish(events - flood.accepted, 4);
    for (const { books } of readers) books.receiver.usual = answer.status(204);
    await lab.settle();
    // The next batch carries the notice of the last drop.
    await flood.tellAll();
    await lab.settle();
    lab.say(`then: ${describe(flood, readers)}`);

    lab.bar(
      'publishers get 204, or 503 with Retry-After',
      flood.wrong.length === 0,
      flood.wrong.slice(0, 5).join(),
    );
    lab.bar('the storage is full at times', flood.refused > 0, 'nothing was refused');
    for (const reader of readers) await judge(lab, reader);
    lab.noneExited(processes);
  },
};

interface Reader {
  name: string;
  client: Client;
  books: DropBooks;
}

async function subscribe(lab: Lab): Promise<Reader[]> {
  return Promise.all(
    Object.entries(SUBSCRIBERS).map(async ([name, { topics, max }]) => {
      const client = await lab.bus.client(name);
      const receiver = await lab.bus.receiver(lab);
      const { callback } = receiver;
      await client.call('POST', '/subscription', { topics, callback, uuid: name, timeout: 50, max });
      return { name, client, books: new DropBooks(receiver, topics) };
    }),
  );
}

/**
 * Watches until the returned function is called, which resolves with the subscribers whose oldest queued batch got
 * older.
 */
function watchOldest(readers: Reader[]): () => Promise<string[]> {
  const older: string[] = [];
  const oldest = new Map<string, number>();
  const stopping = new AbortController();
  const look = async () => {
    while (!stopping.signal.aborted) {
      for (const { name, client } of readers) {
        const { events } = await client.report();
        if (events.oldest !== null && events.oldest < (oldest.get(name) ?? 0)) older.push(name);
        oldest.set(name, events.oldest ?? oldest.get(name) ?? 0);
      }
      await sleep(50, stopping.signal);
    }
  };
  const looking = look();
  return async () => {
    stopping.abort();
    await looking;
    return older;
  };
}

/** Waits until drops are over. Publishes single events meanwhile: each makes the bus drop what is above the limit. */
async function dropsAreOver(lab: Lab, flood: Flood): Promise<void> {
  const { store, partitions } = lab.bus;
  const over = async () => {
    const { used, highMark } = await readMemory(store, { redisMaxBytes: 0, redisMinFreeBytes: MIN_FREE });
    if (used > highMark) await flood.publish(1, 1);
    const jobs = await Promise.all(
      partitions.all.map(({ redis, keys }) => redis.smembersBuffer(keys.jobs_index('aux'))),
    );
    return used <= highMark && !jobs.flat().map(jobName).includes('autodrop');
  };
  await until(over, { timeoutMs: 30_000, everyMs: 50, what: 'nothing more is dropped' });
}

/** Resolves with true if each subscriber keeps at most one batch older than a dropped batch: the one under delivery. */
async function oldestWentFirst(lab: Lab, readers: Reader[]): Promise<boolean> {
  const reports = await Promise.all(readers.map(({ client }) => client.report()));
  const droppedMs = Math.max(...reports.map(({ dropped }) => dropped?.to ?? 0));
  const older = readers.map(({ client: { token } }) => {
    const { redis, keys } = lab.bus.partitions.ofSubscriber(token);
    return redis.zcount(keys.batches_queued(token), '-inf', `(${droppedMs * 1000}`);
  });
  return droppedMs > 0 && Math.max(...(await Promise.all(older))) <= IN_FLIGHT;
}

/** Checks that accepted − received = drop notices = the API's figures, to the event and by topic. */
async function judge(lab: Lab, { name, client, books }: Reader): Promise<void> {
  const missing = books.missingByTopic();
  const notified = books.notified();
  const { dropped } = await client.report();
  const { untold, last_at, ...shown } = dropped ?? { untold: 0 };
  const exact =
    isDeepStrictEqual(notified.topics, missing) && isDeepStrictEqual(shown, notified) && untold === 0;
  const found = `missing ${text(missing)}; notified ${text(notified)}; shown ${text(dropped)}`;
  const unaccounted = books.unaccounted();
  lab.bar(
    `drop notices of ${name} exact: ${notified.events} events of ${notified.batches} batches`,
    exact,
    found,
  );
  lab.bar(`${name} gets nothing that was refused`, unaccounted.length === 0, `${unaccounted.length}`);
}

const text = (value: unknown) => JSON.stringify(value);

function describe({ accepted, refused }: Flood, readers: Reader[]): string {
  const misses = readers.map(({ name, books }) => `${name} misses ${text(books.missingByTopic())}`);
  return `${accepted} events accepted, ${refused} POSTs refused; ${misses.join(', ')}`;
}

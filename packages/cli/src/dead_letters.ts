import type { Bus } from './bus.ts';
import { byTokenOrName, listedByTokenOrName } from './client_names.ts';
import { type Call, collect, Failure, textOption, UsageError } from './command.ts';
import { confirm, counted, countingBus } from './ending.ts';
import { subscriptionOf } from './subscriptions.ts';
import { batchLines, table, timeOf } from './tables.ts';

export async function listDeadLetters(call: Call): Promise<void> {
  const [subscriber, join] = [textOption(call, 'subscriber'), textOption(call, 'join')];
  const bus = call.connect();
  const letters = await listedByTokenOrName(call, bus, subscriber, (token) =>
    collect(bus.deadLetters({ subscriber: token, join })),
  );
  const rows = letters.map((letter) => {
    return [letter.id, letter.subscriber, letter.event_count, timeOf(letter.died_at), letter.reason];
  });
  call.print(letters, table(['ID', 'SUBSCRIBER', 'EVENTS', 'DIED AT', 'REASON'], rows));
}

export async function showDeadLetter(call: Call): Promise<void> {
  const [id = ''] = call.args;
  const letter = await call.connect().deadLetter(id);
  const { history, events, ...record } = letter;
  call.print(letter, batchLines(record, history, events));
}

export async function retryDeadLetters(call: Call): Promise<void> {
  const [id] = idOrAll(call);
  if (id !== undefined) {
    await call.connect().retryDeadLetter(id);
    return call.print(undefined, ['retried 1']);
  }
  const answer = await forSubscriber(call, (bus, whose) => bus.retryDeadLetters(whose));
  call.print(answer, [`retried ${answer.retried}`]);
}

export async function purgeDeadLetters(call: Call): Promise<void> {
  const [id] = idOrAll(call);
  if (id !== undefined) {
    await call.connect().purgeDeadLetter(id);
    return call.print(undefined, ['purged 1']);
  }
  await confirm(call, async () => {
    const has = await countAll(call, countingBus(call)).then(counted, () => '');
    return `Remove ${has || 'all dead letters'} of ${textOption(call, 'subscriber') ?? 'the client'}?`;
  });
  const answer = await forSubscriber(call, (bus, whose) => bus.purgeDeadLetters(whose));
  call.print(answer, [`purged ${answer.purged}`]);
}

/**
 * Returns the arguments: a single id or, with `--all`, none. Throws UsageError otherwise, so that a user who forgets
 * the id does not purge all dead letters.
 */
function idOrAll({ args, options }: Call): string[] {
  if (args.length !== (options.all ? 0 : 1))
    throw new UsageError('Wrong number of arguments: an ID, or --all');
  return args;
}

async function forSubscriber<Answer>(
  call: Call,
  ask: (bus: Bus, whose: { subscriber: string | undefined }) => Promise<Answer>,
): Promise<Answer> {
  const subscriber = textOption(call, 'subscriber');
  const bus = call.connect();
  if (subscriber !== undefined)
    return byTokenOrName(bus, subscriber, (token) => ask(bus, { subscriber: token }));
  return ask(bus, { subscriber }).catch((error) => {
    if (error.code !== 'bad_query') throw error;
    throw new Failure(error.code, 'root must say whose dead letters: give --subscriber TOKEN');
  });
}

/** Returns how many dead letters `--all` means. */
async function countAll(call: Call, bus: Bus): Promise<Record<string, number>> {
  const subscriber = textOption(call, 'subscriber');
  const subscription = await (subscriber === undefined
    ? subscriptionOf(bus, call.target().token)
    : byTokenOrName(bus, subscriber, (token) => bus.subscriber(token)));
  return { 'dead letter': subscription?.dead_letters?.batches ?? 0 };
}

import { type Call, collect, Failure, numberOption, textOption, UsageError } from './command.ts';
import { subscriptionOf } from './subscriptions.ts';
import { members, table, textOf, timeOf } from './tables.ts';

export async function showSubscription(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const subscription = await subscriptionOf(call.connect(), token);
  if (subscription) return call.print(subscription, members(subscription));
  throw new Failure(
    'subscriber_not_found',
    `${token} has no subscription, or these credentials do not show it`,
  );
}

/** Pauses the subscriber with the given token. If no token is given, pauses the client whose credentials are used. */
export async function pauseSubscription(call: Call): Promise<void> {
  const [token] = call.args;
  const bus = call.connect();
  await (token === undefined ? bus.pause() : bus.pauseSubscriber(token));
}

export async function resumeSubscription(call: Call): Promise<void> {
  const [token] = call.args;
  const bus = call.connect();
  await (token === undefined ? bus.resume() : bus.resumeSubscriber(token));
}

export async function listTopics(call: Call): Promise<void> {
  const topics = await collect(call.connect().topics());
  const rows = topics.map(({ name, publisher, events }) => [name, publisher, events]);
  call.print(topics, table(['TOPIC', 'PUBLISHER', 'EVENTS'], rows));
}

export async function giveTopic(call: Call): Promise<void> {
  const [name = '', client = ''] = call.args;
  await call.connect().giveTopic(name, client);
}

export async function deleteTopic(call: Call): Promise<void> {
  const [name = ''] = call.args;
  await call.connect().removeTopic(name);
}

export async function listDeadLetters(call: Call): Promise<void> {
  const subscriber = textOption(call, 'subscriber');
  const letters = await collect(call.connect().deadLetters({ subscriber }));
  const rows = letters.map((letter) => {
    return [letter.id, letter.subscriber, letter.event_count, timeOf(letter.died_at), letter.reason];
  });
  call.print(letters, table(['ID', 'SUBSCRIBER', 'EVENTS', 'DIED AT', 'REASON'], rows));
}

export async function showDeadLetter(call: Call): Promise<void> {
  const [id = ''] = call.args;
  const letter = await call.connect().deadLetter(id);
  const { history, events, ...record } = letter;
  const rest = [...history, ...events].map(textOf);
  call.print(letter, [...members(record), ...rest]);
}

export async function retryDeadLetters(call: Call): Promise<void> {
  const [id] = idOrAll(call);
  if (id !== undefined) {
    await call.connect().retryDeadLetter(id);
    return call.print(undefined, ['retried 1']);
  }
  const answer = await call.connect().retryDeadLetters({ subscriber: textOption(call, 'subscriber') });
  call.print(answer, [`retried ${answer.retried}`]);
}

export async function purgeDeadLetters(call: Call): Promise<void> {
  const [id] = idOrAll(call);
  if (id !== undefined) {
    await call.connect().purgeDeadLetter(id);
    return call.print(undefined, ['purged 1']);
  }
  const answer = await call.connect().purgeDeadLetters({ subscriber: textOption(call, 'subscriber') });
  call.print(answer, [`purged ${answer.purged}`]);
}

/**
 * Returns a list with the given id, or an empty list for `--all`. Throws UsageError unless exactly one of them is
 * given, so that a forgotten id cannot purge everything.
 */
function idOrAll({ args, options }: Call): string[] {
  if (args.length !== (options.all ? 0 : 1))
    throw new UsageError('Wrong number of arguments: an ID, or --all');
  return args;
}

export async function rotateSecret(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const answer = await call.connect().rotateSecret(token, { grace: numberOption(call, 'grace') });
  call.print(answer, [answer.secret]);
}

import { type Calls, TopicNotFoundError } from '@routemaster/client';
import type { Bus } from './bus.ts';
import { byTokenOrName } from './client_names.ts';
import { type Call, collect, Failure, textOption } from './command.ts';
import { remove } from './ending.ts';
import { rate, table } from './tables.ts';

type Sort = Calls['GET /topics']['query']['sort'];

const TOPICS_PER_PAGE = 1000;

/** Lists all topics. Shows rates only with `--sort`, because the bus sends rates only in a sorted list. */
export async function listTopics(call: Call): Promise<void> {
  // Not checked here: the bus refuses an unknown order with an error that lists all orders.
  const sort = textOption(call, 'sort') as Sort;
  const topics = await collect(call.connect().topics({ ...(sort && { sort, limit: TOPICS_PER_PAGE }) }));
  const rows = topics.map(({ name, publisher, events, lately }) => [
    ...[name, publisher, events],
    ...(sort ? [rate(lately?.rate ?? null)] : []),
  ]);
  call.print(topics, table(['TOPIC', 'PUBLISHER', 'EVENTS', ...(sort ? ['EVENTS/S'] : [])], rows));
}

export async function giveTopic(call: Call): Promise<void> {
  const [name = '', client = ''] = call.args;
  const bus = call.connect();
  const giving = byTokenOrName(bus, client, (token) => bus.giveTopic(name, token));
  await giving.catch(adviseOnTopic(name));
}

export async function deleteTopic(call: Call): Promise<void> {
  const [name = ''] = call.args;
  const bus = call.connect();
  const counts = async (quiet: Bus) => {
    const { subscriber_count, delayed } = await quiet.topic(name);
    return { subscriber: subscriber_count, 'delayed event': delayed };
  };
  await remove(call, `the topic ${name}`, counts, () => bus.removeTopic(name).catch(adviseOnTopic(name)));
}

/**
 * Returns a handler for the errors of a call. If there is no topic `name`, the handler throws an error that says how to
 * list all topics. Otherwise it throws the given error.
 */
function adviseOnTopic(name: string): (error: Error) => never {
  return (error) => {
    if (!(error instanceof TopicNotFoundError)) throw error;
    const advice = `there is no topic ${name}; rtm topic list shows all topics`;
    throw new Failure(error.code, advice, { cause: error });
  };
}

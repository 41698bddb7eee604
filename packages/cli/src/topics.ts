import { TopicNotFoundError } from '@routemaster/client';
import { type Call, collect, Failure } from './command.ts';
import { table } from './tables.ts';
import { adviseOn } from './tokens.ts';

export async function listTopics(call: Call): Promise<void> {
  const topics = await collect(call.connect().topics());
  const rows = topics.map(({ name, publisher, events }) => [name, publisher, events]);
  call.print(topics, table(['TOPIC', 'PUBLISHER', 'EVENTS'], rows));
}

export async function giveTopic(call: Call): Promise<void> {
  const [name = '', client = ''] = call.args;
  const bus = call.connect();
  await bus.giveTopic(name, client).catch(adviseOn(bus, client)).catch(adviseOnTopic(name));
}

export async function deleteTopic(call: Call): Promise<void> {
  const [name = ''] = call.args;
  await call.connect().removeTopic(name).catch(adviseOnTopic(name));
}

/** Returns a handler of errors. It throws the given error, and if there is no topic, one that says where all are. */
function adviseOnTopic(name: string): (error: Error) => never {
  return (error) => {
    if (!(error instanceof TopicNotFoundError)) throw error;
    const advice = `there is no topic ${name}; rtm topic list shows all topics`;
    throw new Failure(error.code, advice, { cause: error });
  };
}

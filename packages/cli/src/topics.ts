import { type Call, collect } from './command.ts';
import { table } from './tables.ts';

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

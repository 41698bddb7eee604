import { type Call, UsageError } from './command.ts';

/** The words of the Ruby tool, and the types of the API. */
const TYPES = {
  created: 'create',
  updated: 'update',
  deleted: 'delete',
  noop: 'noop',
} as const;

export async function publish(call: Call): Promise<void> {
  const [word = '', topic = '', url = ''] = call.args;
  if (!Object.hasOwn(TYPES, word)) {
    throw new UsageError(`EVENT is ${Object.keys(TYPES).join(', ')}, not ${word}`);
  }
  await call.connect().publish(topic, { type: TYPES[word as keyof typeof TYPES], url });
}

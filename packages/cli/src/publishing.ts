import { type Call, dateOption, durationOption, textOption, UsageError } from './command.ts';
import { jsonArgument } from './json_argument.ts';
import { publishLines } from './publishing_lines.ts';
import { noteNoSubscriber } from './subscriptions.ts';

/**
 * The event types of the API. The keys are their names in the Ruby tool `rtm`. This tool takes both names of a type.
 */
const TYPES = {
  created: 'create',
  updated: 'update',
  deleted: 'delete',
  noop: 'noop',
} as const;
type EventType = (typeof TYPES)[keyof typeof TYPES];

function typeOf(word: string): EventType {
  for (const [name, type] of Object.entries(TYPES)) if (word === name || word === type) return type;
  throw new UsageError(`The first argument must be one of ${Object.keys(TYPES).join(', ')}, not ${word}`);
}

export async function publish(call: Call): Promise<void> {
  const file = textOption(call, 'ndjson');
  if (call.args.length !== (file === undefined ? 3 : 1))
    throw new UsageError('Wrong number of arguments: a type, TOPIC and URL, or TOPIC and --ndjson FILE');
  if (file !== undefined) {
    const own = ['data', 'id', 'delay', 'at'].find((name) => call.options[name] !== undefined);
    if (own !== undefined)
      throw new UsageError(`--${own} is for one event; with --ndjson, each line has its own ${own}`);
    return publishLines(call, file);
  }
  const [word = '', topic = '', url = ''] = call.args;
  const type = typeOf(word);
  const given = textOption(call, 'data');
  const data = given === undefined ? undefined : await jsonArgument(call, '--data', given);
  const [delay, at] = [durationOption(call, 'delay'), dateOption(call, 'at')];
  const event = JSON.stringify({ type, url, id: textOption(call, 'id'), delay, at });
  const bus = call.connect();
  await bus.publishText(topic, data === undefined ? event : `${event.slice(0, -1)},"data":${data}}`);
  await noteNoSubscriber(call, bus, topic);
}

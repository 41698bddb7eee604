import { BusError } from '../errors.ts';
import type { Scopes } from '../routing/caller.ts';
import { TOPIC_NAME } from '../routing/topic_name.ts';

export const MAX_PATTERNS = 100;
export const TOPIC_PATTERN_RULE = 'must be a topic name, or how it begins followed by *';

/**
 * True for a topic name (`orders`), the beginning of a name with a star (`ord*`), and a star alone. A star elsewhere
 * could make matching slow.
 */
export function isTopicPattern(text: string): boolean {
  return text === '*' || TOPIC_NAME.test(text.endsWith('*') ? text.slice(0, -1) : text);
}

export function allows(patterns: readonly string[] | undefined, topic: string): boolean {
  if (!patterns) return true;
  return patterns.some((each) => (each.endsWith('*') ? topic.startsWith(each.slice(0, -1)) : each === topic));
}

/** Returns the error for a client that may not publish to a topic. `field` is the field that names the topic. */
export function mayNotPublish(topic: string, field?: string): BusError {
  const members = field === undefined ? {} : { field };
  return new BusError('forbidden', `this client may not publish to ${topic}`, { members });
}

/** Returns scopes as fields of the client's hash in Redis. Each is a list of topic patterns, separated by spaces. */
export function scopeFields({ publish, subscribe }: Scopes): Record<string, string> {
  return {
    ...(publish && { publish: publish.join(' ') }),
    ...(subscribe && { subscribe: subscribe.join(' ') }),
  };
}

/** Returns the scopes in the form that scripts take. A scope that permits all topics is left out. */
export function scopeList(scopes: Scopes): { of: 'publish' | 'subscribe'; patterns: string }[] {
  const fields = Object.entries(scopeFields(scopes)) as ['publish' | 'subscribe', string][];
  return fields.map(([of, patterns]) => ({ of, patterns }));
}

/** Returns the scopes in the fields `publish` and `subscribe` of a client's hash in Redis. Null permits all topics. */
export function readScopes(publish: string | null, subscribe: string | null): Scopes {
  return {
    ...(publish !== null && { publish: patternsIn(publish) }),
    ...(subscribe !== null && { subscribe: patternsIn(subscribe) }),
  };
}

function patternsIn(text: string): string[] {
  return text.split(' ').filter((each) => each !== '');
}

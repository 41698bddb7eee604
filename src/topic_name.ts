import { BusError } from './errors.ts';

/** What a topic may be called. */
export const TOPIC_NAME = /^[a-z0-9_]{1,64}$/;
export const TOPIC_NAME_RULE = '1 to 64 characters of a-z, 0-9 and _';

/** The name, if a topic may be called so. Throws bad_topic. */
export function checkedTopicName(name: string): string {
  if (TOPIC_NAME.test(name)) return name;
  throw new BusError('bad_topic', `a topic name has ${TOPIC_NAME_RULE}`);
}

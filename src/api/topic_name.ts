import { BusError } from '../errors.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../models/topic.ts';

/** The name, if a topic may be called so. Throws bad_topic. */
export function checkedTopicName(name: string): string {
  if (TOPIC_NAME.test(name)) return name;
  throw new BusError('bad_topic', `a topic name has ${TOPIC_NAME_RULE}`);
}

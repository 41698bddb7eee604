import assert from 'node:assert/strict';
import type { Arguments, Reply, ScriptName } from '../../src/store/contracts.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Crossing } from './crossing.ts';
import type { MovingTrigger } from './moving_trigger.ts';

/** Names an event of the trigger. It may fire for another topic at a time whose firing a failover has undone. */
export function nameOf({ id, topic }: { id: string; topic: string }): string {
  return `${id} of ${topic}`;
}

/** Tells the model what Redis has accepted, in this order. */
export function observe<N extends ScriptName>(
  model: Crossing,
  trigger: MovingTrigger,
  home: Partition,
  name: N,
  args: Arguments<N>,
  reply: Reply<N>,
): void {
  const seen = { name, args, reply } as {
    [M in ScriptName]: { name: M; args: Arguments<M>; reply: Reply<M> };
  }[ScriptName];
  if (seen.name === 'publish') {
    for (const [index, { topic, events }] of [...seen.args.publications].entries())
      if (seen.reply.outcomes[index] === 'accepted') model.accept(home.index, topic, events as string[]);
  } else if (seen.name === 'delay') {
    const [{ topic, events } = assert.fail()] = seen.args.publications;
    const idsOf = (isDelayed: boolean) =>
      events.filter(({ delay }) => (delay !== undefined) === isDelayed).map(({ id }) => id);
    if (seen.reply.outcomes[0]?.outcome !== 'accepted') return;
    model.accept(home.index, topic, idsOf(false));
    model.delay(topic, idsOf(true));
  } else if (seen.name === 'publish_delayed') {
    for (const { topic, events } of seen.reply.published) model.publishDelayed(home.index, topic, events);
  } else if (seen.name === 'fire_triggers') {
    const ids = trigger.noteFired(home.index, seen.args, seen.reply);
    for (const { topic } of seen.reply.published) {
      const names = ids.map((id) => nameOf({ id, topic }));
      model.accept(home.index, topic, names);
    }
  } else if (seen.name === 'remove_topic') {
    if (seen.reply.outcome === 'ok') assert.equal(model.dropDelayed(seen.args.topic), seen.reply.delayed);
  }
}

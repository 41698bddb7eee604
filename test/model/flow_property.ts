import fc from 'fast-check';
import type { Partition } from '../../src/store/partition.ts';
import { FlowScene, TOPICS } from './flow_scene.ts';
import { holdsInAnyOrder, sceneStep as step } from './scene.ts';

const { prototype: scene } = FlowScene;
const n = fc.nat(11);
const yes = fc.boolean();
const seldom = fc.integer({ min: 0, max: 4 }).map((each) => each === 0);
const j = fc.nat(1);
const trigger = fc.constantFrom('daily', 'hourly');
const sources = fc.subarray(['paid', 'packed', 'ready'], { minLength: 1, maxLength: 2 });
const outlet = fc.constantFrom('ready', 'ready', 'packed', 'stuck');
const keys = fc.array(fc.constantFrom('x', 'y'), { minLength: 1, maxLength: 4 });
const how = fc.constantFrom<('ack' | 'nack' | 'bury' | 'die')[]>('ack', 'ack', 'nack', 'bury', 'die');

const anyStep = fc.oneof(
  step(14, scene.publish, n, n, keys),
  step(1, scene.watch),
  step(3, scene.subscribe, n, fc.subarray(TOPICS)),
  step(1, scene.unsubscribe, n, n),
  step(1, scene.leave, n, seldom),
  step(1, scene.endJoin, n, j, seldom),
  step(1, scene.removeTopic, n),
  step(1, scene.giveTopic, n, n),
  step(1, scene.register, n, n),
  step(1, scene.rotate, n),
  step(2, scene.limit, n, n, seldom),
  step(1, scene.removeClient, n, seldom),
  step(4, scene.putTrigger, n, trigger, n, yes, seldom),
  step(1, scene.removeTrigger, n, trigger),
  step(4, scene.plan),
  step(6, scene.fire, n, yes),
  step(6, scene.putJoin, n, j, sources, outlet, fc.constantFrom(1, 60_000)),
  step(3, scene.expire, n, j),
  step(20, scene.work, fc.constantFrom('w1', 'w2', 'w3', 'w4'), how, fc.integer({ min: 1, max: 3 }), yes),
  step(1, scene.revive),
  step(2, scene.scrub),
  step(4, scene.replicate),
  step(2, scene.failOver),
);

/**
 * Returns the property that holds for any calls in any order. An event that a subscriber or a join gets is in its queue
 * until it is removed. Triggers fire and joins count once. Clients have nothing beyond their limits. `FlowScene` says
 * what holds when another Redis takes over.
 */
export function flowsOnce(store: () => Partition, longest: number, counted = () => {}) {
  return holdsInAnyOrder(() => FlowScene.begin(store()), [anyStep], longest, counted);
}

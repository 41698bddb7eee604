import fc from 'fast-check';
import type { Partitions } from '../../src/store/partitions.ts';
import { CrossingScene } from './crossing_scene.ts';
import type { Fate } from './gate.ts';
import { holdsInAnyOrder, sceneStep as step } from './scene.ts';

const { prototype: scene } = CrossingScene;
const n = fc.nat(11);
const yes = fc.boolean();
const seldom = fc.integer({ min: 0, max: 4 }).map((each) => each === 0);
const oneOrTwo = fc.subarray([0, 1, 2], { minLength: 1, maxLength: 2 });
const few = fc.integer({ min: 1, max: 3 });

const anyStep = [
  step(4, scene.subscribe, n, yes, yes, n),
  step(2, scene.unsubscribe, n, n, n),
  step(1, scene.leave, n, n),
  step(2, scene.putJoin, yes, yes, n),
  step(1, scene.endJoin, n),
  step(1, scene.removeTopic, n, n),
  step(6, scene.publish, n, few, n),
  step(1, scene.repeat, n, n),
  step(2, scene.delay, n, fc.nat(1), few, n),
  step(2, scene.publishDelayed, n, n),
  step(4, scene.putTrigger, n, seldom, n),
  step(4, scene.fire, n, n),
  step(5, scene.job, n, n),
  step(1, scene.scrub, n),
  step(1, scene.refresh, n, n),
  step(50, scene.let, n, fc.constantFrom(1, 1, 2, 3, 5, 8, 13)),
  step(2, scene.replicate, n),
  step(2, scene.failOver, oneOrTwo, yes),
  step(4, scene.fail, n, fc.constantFrom<Fate[]>('away', 'lost', 'late')),
];

/**
 * Steps with more failovers than the usual ones. There are also more calls whose effect one partition loses in a
 * failover, although another partition already has it.
 */
const failOverSteps = [
  step(20, scene.subscribe, n, fc.constant(true), fc.constant(true), n),
  step(40, scene.publish, n, few, n),
  step(40, scene.job, n, n),
  step(150, scene.let, n, fc.constant(13)),
  step(20, scene.fail, n, fc.constant<Fate>('lost')),
  step(15, scene.failOver, oneOrTwo, yes),
];

/**
 * Returns the property that with several partitions and processes, each subscriber gets each event once and in order.
 * A trigger that moves between them stays one, and fires once. It holds whatever the processes do at the same time, in
 * whatever order Redis gets their calls, and whichever fail. crossing.ts says what holds when another Redis takes over.
 */
export function crossesOnce(partitions: () => Partitions, longest: number, counted = () => {}) {
  const begin = async () => {
    await partitions().control.redis.flushall();
    return CrossingScene.begin(partitions());
  };
  const kinds = [anyStep, anyStep, [...anyStep, ...failOverSteps]].map((steps) => fc.oneof(...steps));
  return holdsInAnyOrder(begin, kinds, longest, counted);
}

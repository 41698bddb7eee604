import fc from 'fast-check';
import type { Partitions } from '../../src/store/partitions.ts';
import { CrossingScene } from './crossing_scene.ts';
import type { Fate } from './gate.ts';

interface Step {
  run: (scene: CrossingScene) => Promise<void>;
  toString: () => string;
}

/** Returns a kind of step, `weight` times as frequent as one of weight 1. */
function step<A extends unknown[]>(
  weight: number,
  method: (this: CrossingScene, ...args: A) => Promise<void>,
  ...args: { [I in keyof A]: fc.Arbitrary<A[I]> }
) {
  const tuple = fc.tuple(...(args as fc.Arbitrary<unknown>[])) as unknown as fc.Arbitrary<A>;
  const arbitrary = tuple.map(
    (given): Step => ({
      run: (scene) => method.call(scene, ...given),
      toString: () => `${method.name}(${given})`,
    }),
  );
  return { weight, arbitrary };
}

const { prototype: scene } = CrossingScene;
const n = fc.nat(11);
const yes = fc.boolean();
const few = fc.integer({ min: 1, max: 3 });

const anyStep = fc.oneof(
  step(4, scene.subscribe, n, yes, yes, n),
  step(2, scene.unsubscribe, n, n, n),
  step(1, scene.leave, n, n),
  step(1, scene.removeTopic, n, n),
  step(6, scene.publish, n, few, n),
  step(1, scene.repeat, n, n),
  step(2, scene.delay, n, fc.nat(1), few, n),
  step(2, scene.publishDelayed, n, n),
  step(5, scene.job, n, n),
  step(1, scene.scrub, n),
  step(1, scene.refresh, n, n),
  step(50, scene.let, n, fc.constantFrom(1, 1, 2, 3, 5, 8, 13)),
  step(4, scene.fail, n, fc.constantFrom<Fate[]>('away', 'lost', 'late')),
);

/**
 * Returns the property that with several partitions and processes, each event reaches those who are subscribed, once and
 * in order: whatever they do at the same time, in whatever order Redis gets their calls, and whichever of these fail.
 * `counted` is called after each step.
 */
export function crossesOnce(partitions: () => Partitions, longest: number, counted = () => {}) {
  const steps = fc.array(anyStep, { maxLength: longest, size: 'max' });
  return fc.asyncProperty(steps, async (all) => {
    await partitions().control.redis.flushall();
    const fresh = new CrossingScene(partitions());
    try {
      for (const { run } of all) {
        await run(fresh);
        counted();
      }
      await fresh.end();
    } catch (error) {
      throw new Error(`${(error as Error).message}\n\n${fresh.did.join('\n')}`, { cause: error });
    }
  });
}

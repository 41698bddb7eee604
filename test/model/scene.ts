import fc from 'fast-check';

/** A bus beside what a test knows of it. Its methods are steps; their arguments choose among what there is. */
interface Scene {
  /** What was done so far. A failure reports it. */
  readonly did: string[];
  /** Called after the last step. */
  end(): Promise<void>;
}

interface SceneStep<S> {
  run: (scene: S) => Promise<void>;
  toString: () => string;
}

/** Returns a kind of step, `weight` times as frequent as one of weight 1. */
export function sceneStep<S, A extends unknown[]>(
  weight: number,
  method: (this: S, ...args: A) => Promise<void>,
  ...args: { [I in keyof A]: fc.Arbitrary<A[I]> }
) {
  const tuple = fc.tuple(...(args as fc.Arbitrary<unknown>[])) as unknown as fc.Arbitrary<A>;
  const arbitrary = tuple.map(
    (given): SceneStep<S> => ({
      run: (scene) => method.call(scene, ...given),
      toString: () => `${method.name}(${given})`,
    }),
  );
  return { weight, arbitrary };
}

/**
 * Returns the property that no steps of one of these `kinds`, up to `longest` of them, make a scene fail. `begin`
 * resolves with a new scene on an empty Redis. `counted` is called after each step.
 */
export function holdsInAnyOrder<S extends Scene>(
  begin: () => Promise<S>,
  kinds: readonly fc.Arbitrary<SceneStep<S>>[],
  longest: number,
  counted: () => void,
) {
  const steps = fc.oneof(...kinds.map((kind) => fc.array(kind, { maxLength: longest, size: 'max' })));
  return fc.asyncProperty(steps, async (all) => {
    const scene = await begin();
    try {
      for (const { run } of all) {
        await run(scene);
        counted();
      }
      await scene.end();
    } catch (error) {
      throw new Error(`${(error as Error).message}\n\n${scene.did.join('\n')}`, { cause: error });
    }
  });
}

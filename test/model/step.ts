import fc from 'fast-check';
import type { Model } from './model.ts';
import type { World } from './world.ts';

/**
 * Makes a call to the bus, checks the answer, and makes the same change to the model. Resolves with a text that says
 * what was done.
 */
export type Action<A extends unknown[]> = (world: World, model: Model, ...args: A) => Promise<string>;

export interface Weighted {
  weight: number;
  arbitrary: fc.Arbitrary<fc.AsyncCommand<Model, World>>;
}

/** One call with its arguments; a counterexample shows what it did. */
class Step<A extends unknown[]> implements fc.AsyncCommand<Model, World> {
  readonly #action: Action<A>;
  readonly #args: A;
  #did: string;

  constructor(action: Action<A>, args: A) {
    this.#action = action;
    this.#args = args;
    this.#did = `${action.name}(${JSON.stringify(args)})`;
  }

  check(): boolean {
    return true;
  }

  async run(model: Model, world: World): Promise<void> {
    this.#did = await this.#action(world, model, ...this.#args);
    await world.verify(model);
    world.counted();
  }

  toString(): string {
    return this.#did;
  }
}

/** Returns a kind of step, `weight` times as frequent as one of weight 1. */
export function step<A extends unknown[]>(
  weight: number,
  action: Action<A>,
  ...args: { [I in keyof A]: fc.Arbitrary<A[I]> }
): Weighted {
  const tuple = fc.tuple(...(args as fc.Arbitrary<unknown>[])) as unknown as fc.Arbitrary<A>;
  return { weight, arbitrary: tuple.map((given) => new Step(action, given)) };
}

/** Returns an item of a list by any number. Returns undefined if the list is empty. */
export function pick<T>(list: readonly T[], n: number): T | undefined {
  return list[n % list.length];
}

import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Model } from './model.ts';
import type { World } from './world.ts';

/**
 * Makes a call to the bus, checks the answer, and makes the same change to the model. Resolves with a text that says
 * what was done.
 */
type Action<A extends unknown[]> = (world: World, model: Model, ...args: A) => Promise<string>;

/** The models of all partitions. */
type Models = readonly Model[];
/** All partitions, in the same order. */
type Worlds = readonly World[];

interface Weighted {
  weight: number;
  arbitrary: fc.Arbitrary<fc.AsyncCommand<Models, Worlds>>;
}

/** One call in one partition, with its arguments; a counterexample shows what it did. */
class Step<A extends unknown[]> implements fc.AsyncCommand<Models, Worlds> {
  readonly #place: number;
  readonly #action: Action<A>;
  readonly #args: A;
  #did: string;

  constructor(place: number, action: Action<A>, args: A) {
    this.#place = place;
    this.#action = action;
    this.#args = args;
    this.#did = `${action.name}(${JSON.stringify(args)})`;
  }

  check(): boolean {
    return true;
  }

  async run(models: Models, worlds: Worlds): Promise<void> {
    const place = this.#place % worlds.length;
    const [model, world] = [models[place] ?? assert.fail(), worlds[place] ?? assert.fail()];
    const did = await this.#action(world, model, ...this.#args);
    this.#did = worlds.length === 1 ? did : `partition ${place}: ${did}`;
    await world.verify(model);
    for (const other of worlds) if (other !== world) await other.assertUnchanged();
    world.counted();
  }

  toString(): string {
    return this.#did;
  }
}

/** Maximum of the number that chooses a partition by its remainder. */
const MAX_PLACE = 255;

/** Returns a kind of step, `weight` times as frequent as one of weight 1. */
export function step<A extends unknown[]>(
  weight: number,
  action: Action<A>,
  ...args: { [I in keyof A]: fc.Arbitrary<A[I]> }
): Weighted {
  const tuple = fc.tuple(...(args as fc.Arbitrary<unknown>[])) as unknown as fc.Arbitrary<A>;
  const placed = fc.tuple(fc.nat(MAX_PLACE), tuple);
  return { weight, arbitrary: placed.map(([place, given]) => new Step(place, action, given)) };
}

/** Returns an item of a list by any number. Returns undefined if the list is empty. */
export function pick<T>(list: readonly T[], n: number): T | undefined {
  return list[n % list.length];
}

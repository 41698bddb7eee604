import type { Meddling } from '../harness/meddling_proxy.ts';
import type { Random } from '../harness/random.ts';
import { sleep } from '../src/clock.ts';

/** The troubles of a connection, repeated in random order. */
const TROUBLES = ['cut', 'cut', 'cut', 'delay', 'delay', 'delay', 'mute'] as const;
type Trouble = (typeof TROUBLES)[number];

interface TroublesOptions {
  random: Random;
  /** How many messages pass between two troubles. */
  messages: { min: number; max: number };
  /** True to mute only once, since each mute costs seconds. */
  fewMutes?: boolean;
}

/** Decides which messages of a connection get into trouble: some are cut, some delayed, some never arrive. */
export class Troubles {
  readonly #options: TroublesOptions;
  readonly #counts = new Map<string, number>();
  #plan: Trouble[];
  #wait: number;

  constructor(options: TroublesOptions) {
    this.#options = options;
    this.#plan = options.random.shuffled<Trouble>(TROUBLES);
    this.#wait = this.#messages();
  }

  /** Decides about the next message. */
  next(at: 'request' | 'reply'): Meddling | undefined {
    if (this.#wait-- > 0) return undefined;
    this.#wait = this.#messages();
    const { random, fewMutes = false } = this.#options;
    const others = fewMutes ? TROUBLES.filter((each) => each !== 'mute') : TROUBLES;
    if (this.#plan.length === 0) this.#plan = random.shuffled<Trouble>(others);
    const what = this.#plan.pop() ?? 'delay';
    const name = `${what} at a ${at}`;
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    if (what !== 'delay') return { end: what };
    const ms = random.between(20, 400);
    return { first: () => sleep(ms) };
  }

  /** Returns the troubles made so far, such as `3 × cut at a reply`. */
  toString(): string {
    return [...this.#counts].map(([what, count]) => `${count} × ${what}`).join(', ');
  }

  #messages(): number {
    const { random, messages } = this.#options;
    return random.whole(messages.min, messages.max);
  }
}

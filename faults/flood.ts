import type { Client } from '../harness/http/client.ts';
import type { Random } from '../harness/random.ts';
import { until } from '../harness/until.ts';
import { sleep } from '../src/clock.ts';
import type { DropBooks } from './drop_books.ts';
import type { Lab } from './lab.ts';

/** The first topic gets two of three events. */
const TOPICS = ['widgets', 'widgets', 'gadgets'];
const MAX_PER_POST = 20;
/** Pause after a refusal. It is shorter than the bus's Retry-After, so that more events come while memory is full. */
const AFTER_REFUSAL_MS = 20;

/** Publishes until the memory is full, and checks each answer. */
export class Flood {
  accepted = 0;
  refused = 0;
  /** Answers that were neither 204 nor 503 with Retry-After. */
  readonly wrong: string[] = [];
  readonly #lab: Lab;
  readonly #random: Random;
  readonly #headers: Record<string, string>;
  readonly #books: readonly DropBooks[];
  readonly #maxDataBytes: number;
  #posts = 0;

  /** `maxDataBytes`: the largest data of an event. */
  constructor(lab: Lab, { token, secret }: Client, books: readonly DropBooks[], maxDataBytes: number) {
    this.#lab = lab;
    this.#random = lab.random.fork('flood');
    const authorization = `Basic ${btoa(`${token}:${secret}`)}`;
    this.#headers = { authorization, 'content-type': 'application/json' };
    this.#books = books;
    this.#maxDataBytes = maxDataBytes;
  }

  /** Publishes until this many more events are accepted. With one publisher, the order of acceptance is known. */
  async publish(events: number, publishers: number): Promise<void> {
    const enough = this.accepted + events;
    const publish = async () => {
      while (this.accepted < enough && this.wrong.length === 0) {
        const count = this.#random.whole(1, Math.min(MAX_PER_POST, Math.max(1, enough - this.accepted)));
        if (!(await this.#post(this.#random.pick(TOPICS), count))) await sleep(AFTER_REFUSAL_MS);
      }
    };
    await Promise.all(Array.from({ length: publishers }, publish));
  }

  /** Publishes one event to each topic. */
  async tellAll(): Promise<void> {
    for (const topic of new Set(TOPICS)) await until(() => this.#post(topic, 1));
  }

  /** Resolves with whether the POST was accepted. */
  async #post(topic: string, count: number): Promise<boolean> {
    const post = ++this.#posts;
    const urls = Array.from({ length: count }, (_, n) => `https://shop.example.com/${topic}/${post}/${n}`);
    const data = () => 'x'.repeat(this.#random.whole(0, this.#maxDataBytes));
    const response = await fetch(`${this.#lab.bus.url}/topics/${topic}`, {
      method: 'POST',
      headers: this.#headers,
      body: JSON.stringify(urls.map((url) => ({ type: 'create', url, data: data() }))),
    });
    const body = await response.text();
    if (response.status === 204) {
      this.accepted += count;
      this.#lab.ledger.accept(topic, urls);
      for (const books of this.#books) books.accept(topic, urls);
      return true;
    }
    this.refused++;
    const hasRetryAfter = /^[1-9]\d*$/.test(response.headers.get('retry-after') ?? '');
    if (response.status !== 503 || !hasRetryAfter) this.wrong.push(`${response.status} ${body}`);
    return false;
  }
}

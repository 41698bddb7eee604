import type { DeadLetter } from './dead_letter.ts';

/** Yields a dead letter with its events as JSON, in pieces, because the events can be hundreds of megabytes. */
export async function* wholeJson(letter: DeadLetter, events: AsyncIterable<string>): AsyncGenerator<string> {
  yield `${JSON.stringify(letter).slice(0, -1)},"events":[`;
  let separator = '';
  for await (const event of events) {
    yield separator + event;
    separator = ',';
  }
  yield ']}';
}

import { randomUUID } from 'node:crypto';
import { Routemaster } from '@routemaster/client';
import { parseJson } from './long_numbers.ts';

/** The bus that a command calls. */
export class Bus extends Routemaster {
  /**
   * Publishes an event, or an array of events, given as JSON. Sends this JSON unchanged, with all digits of its
   * numbers. Like the other calls, throws TypeError for a topic that would lead to another path.
   */
  async publishText(topic: string, json: string): Promise<void> {
    if (/^\.{0,2}$/.test(topic)) throw new TypeError(`topic must not be ${topic || 'empty'}`);
    const path = `/topics/${encodeURIComponent(topic)}`;
    await this.request({ method: 'POST', path, body: json, key: randomUUID() }, true, {});
  }

  protected override parse(text: string): unknown {
    return parseJson(text);
  }
}

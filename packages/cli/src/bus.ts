import { randomUUID } from 'node:crypto';
import { Routemaster } from '@routemaster/client';
import { parseJson } from './long_numbers.ts';

/** The bus that a command calls. */
export class Bus extends Routemaster {
  /**
   * Publishes an event, or an array of events, given as JSON, which is sent unchanged, with all digits of its numbers.
   * Throws TypeError for an empty topic, `.` and `..`, which would change the path of the request.
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

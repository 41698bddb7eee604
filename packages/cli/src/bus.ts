import { randomUUID } from 'node:crypto';
import { Routemaster, UnauthenticatedError } from '@routemaster/client';
import { parseJson } from './long_numbers.ts';

/** Replaces the text of the bus, which speaks of Basic and Digest: users of rtm do not choose between them. */
const REFUSED =
  "the bus refuses these credentials for this call: give a client's TOKEN:SECRET, or the root key, " +
  'by --token, ROUTEMASTER_TOKEN or .rtmrc';

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

  protected override request(...parts: Parameters<Routemaster['request']>) {
    return super.request(...parts).catch((error) => {
      if (!(error instanceof UnauthenticatedError)) throw error;
      throw new UnauthenticatedError({ ...error, detail: REFUSED });
    });
  }

  protected override parse(text: string): unknown {
    return parseJson(text);
  }
}

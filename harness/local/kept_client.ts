import { BusAnswerError, BusClient, type Credentials } from '../http/bus_client.ts';

/** Returns the client of an earlier start if the bus still knows it; otherwise a new client of this name. */
export async function keptClient(
  busUrl: string,
  root: BusClient,
  name: string,
  kept?: Credentials,
): Promise<Credentials> {
  if (kept) {
    try {
      await new BusClient(busUrl, kept).call('GET', '/topics');
      return kept;
    } catch (error) {
      if (!(error instanceof BusAnswerError && error.status === 401)) throw error; // 401: another Redis than last time
    }
  }
  return (await root.call('POST', '/api_tokens', { name })) as Credentials;
}

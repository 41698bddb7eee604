import { readConfig } from '../../src/config.ts';
import { CallbackPolicy } from '../../src/subscribing/callback_policy.ts';
import { isFreePort } from '../processes/ports.ts';
import { HTTPS_PORT, RECEIVER_PORT } from './sample_receiver.ts';

/** Ports below this one need the rights of root. */
const FIRST_USER_PORT = 1024;

/** Where callbacks may lead, as the settings of the bus say. */
export interface AllowedCallbacks {
  description: string;
  /** A port on which a receiver of this machine gets deliveries. Undefined if the settings forbid every one. */
  receiverPort: number | undefined;
  /** What to add to the settings so that a receiver of this machine gets deliveries. Empty if nothing is missing. */
  missing: readonly string[];
}

/** Returns where callbacks may lead on a bus with the environment `env`. Throws BootError if a setting is wrong. */
export async function allowedCallbacks(env: NodeJS.ProcessEnv): Promise<AllowedCallbacks> {
  const { callbackAllow, callbackPorts } = readConfig(env);
  const isAllowed = (policy: CallbackPolicy, port: number) =>
    policy.refusal(`http://127.0.0.1:${port}/`).then((refusal) => refusal === undefined);
  const allowsThisMachine = await isAllowed(new CallbackPolicy(callbackAllow), RECEIVER_PORT);
  const ports = new CallbackPolicy(['127.0.0.1'], { callbackPorts });
  const port = (await isAllowed(ports, RECEIVER_PORT)) ? RECEIVER_PORT : await freePortOf(callbackPorts);
  return {
    description: described(callbackAllow, callbackPorts, await isAllowed(ports, HTTPS_PORT)),
    receiverPort: allowsThisMachine ? port : undefined,
    missing: [
      ...(allowsThisMachine ? [] : ['127.0.0.1 to ROUTEMASTER_CALLBACK_ALLOW']),
      ...(port === undefined ? [`${RECEIVER_PORT} to ROUTEMASTER_CALLBACK_PORTS`] : []),
    ],
  };
}

function described(allow: readonly string[], ports: readonly string[], hasHttpsPort: boolean): string {
  const where = ports.length === 0 ? 'any port' : `port${ports.length > 1 ? 's' : ''} ${ports.join(', ')}`;
  const publicly = hasHttpsPort ? 'by https' : `by https to ${where}`;
  return `may lead to ${where} of ${allow.join(', ')}, and ${publicly} of public addresses`;
}

/** Resolves with the first port of these on which a receiver can listen. An entry is a port, or a range of ports. */
async function freePortOf(entries: readonly string[]): Promise<number | undefined> {
  for (const entry of entries) {
    const [first = 0, last = first] = entry.split('-').map(Number);
    for (let port = Math.max(first, FIRST_USER_PORT); port <= last; port++) {
      if (await isFreePort(port)) return port;
    }
  }
  return undefined;
}

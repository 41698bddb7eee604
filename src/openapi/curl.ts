import { SHOP } from './examples.ts';
import type { Operation } from './openapi.ts';

/**
 * The shell command that sets the address of the bus, here to an example. `GET /docs` replaces this command if it knows
 * the real address.
 */
export const BUS_LINE = busLine('https://bus.example.com');

/** Returns the shell command that sets `BUS`, the address of the bus in the curl commands. */
export function busLine(url: string): string {
  return `${`BUS=${url}`.padEnd(27)}   # where the bus is`;
}

/** Shell commands that set the variables which the curl commands in the documentation use. */
export const VARIABLES = `${BUS_LINE}
ROOT_KEY=…                    # root, or the viewer key for what viewers may see
SHOP=token:secret             # a client
TOKEN=\${SHOP%%:*}             # its token
ID=…                          # of a delivery, a dead letter, a job or an event that waits, as the lists show it`;

const IN_PATH: Record<string, string> = { token: '$TOKEN', id: '$ID' };

/** Returns a curl command that makes a call of the API. The command uses the shell variables that VARIABLES sets. */
export function curlOf(method: string, path: string, operation: Operation): string {
  const roles = operation['x-roles'];
  const filled = path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string) => IN_PATH[name] ?? exampleOf(operation, name),
  );
  const body = operation.requestBody?.content['application/json']?.example;
  const parts = ['curl'];
  if (roles.length > 0) parts.push(`-u "${roles.includes('client') ? '$SHOP' : '$ROOT_KEY:'}"`);
  const usual = body === undefined ? 'GET' : 'POST';
  if (method !== usual) parts.push(`-X ${method}`);
  // The shell variable `$TOKEN` replaces the example's token, which exists on no reader's bus. The shell replaces no
  // variables inside single quotes, so the quotes end before `$TOKEN` and begin again after it.
  if (body !== undefined) parts.push(`-d '${JSON.stringify(body).replaceAll(SHOP, `'"$TOKEN"'`)}'`);
  return [...parts, `"$BUS${filled}"`].join(' ');
}

function exampleOf({ parameters }: Operation, name: string): string {
  return String(parameters?.find((each) => each.name === name)?.example ?? name);
}

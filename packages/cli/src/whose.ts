import type { Bus } from './bus.ts';
import { byTokenOrName } from './client_names.ts';
import { type Call, Failure, type Option, textOption } from './command.ts';
import { jsonArgument } from './json_argument.ts';
import { parseJson } from './long_numbers.ts';

interface Owner {
  client: string | undefined;
}

/** The option `--client`, which says whose join or trigger is meant. `roles` says who needs it, for the help. */
export const ofClient = (thing: string, roles = 'root'): Option => ({
  value: 'TOKEN',
  help: `whose ${thing} (${roles})`,
});

/**
 * Calls the bus about a join or trigger of the client that `--client` names. If root or a viewer does not give
 * `--client`, throws an error that tells the user to give it.
 */
export async function asked<Answer>(
  call: Call,
  bus: Bus,
  thing: string,
  ask: (owner: Owner) => Promise<Answer>,
): Promise<Answer> {
  const client = textOption(call, 'client');
  if (client !== undefined) return byTokenOrName(bus, client, (token) => ask({ client: token }));
  return ask({ client }).catch((error) => {
    if (error.code !== 'bad_query') throw error;
    throw new Failure(error.code, `say whose ${thing} it is: give --client TOKEN`);
  });
}

/**
 * Makes the join or trigger that the first argument names, or replaces it. The second argument is its JSON. Prints a
 * note on stderr. If the bus had it before, the note only says that it is now as given. It does not say that this call
 * has changed it: perhaps it was the same before, or an earlier attempt, whose answer was lost, has made it. The bus
 * checks the JSON, so `body` has the type `never`, which fits any input.
 */
export async function putNamed(
  call: Call,
  thing: string,
  put: (bus: Bus, name: string, body: never, owner: Owner) => Promise<unknown>,
): Promise<void> {
  const [name = '', given = ''] = call.args;
  const body = parseJson(await jsonArgument(call, 'The second argument', given)) as never;
  const bus = call.connect();
  const answer = await asked(call, bus, thing, (owner) => put(bus, name, body, owner));
  call.print(answer, []);
  call.note(bus.lastStatus === 201 ? `made the ${thing} ${name}` : `the ${thing} ${name} is now as given`);
}

import type { Bus } from './bus.ts';
import { byTokenOrName } from './client_names.ts';
import { type Call, Failure, type Option, textOption } from './command.ts';
import { jsonArgument } from './json_argument.ts';
import { parseJson } from './long_numbers.ts';

interface Owner {
  client: string | undefined;
}

/** The option `--client`, by which `roles` say whose join or trigger they mean. */
export const ofClient = (thing: string, roles = 'root'): Option => ({
  value: 'TOKEN',
  help: `whose ${thing} (${roles})`,
});

/**
 * Calls the bus about a join or trigger, with the client of `--client`. If root or a viewer gives none, throws an error
 * that says so in the words of rtm.
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
 * Puts the join or trigger that the first argument names, as the JSON of the second argument says. Prints a note on
 * stderr. If there was one before, the note does not say that this call has changed it: it may have been the same, or
 * it was put by an earlier attempt whose answer was lost. The bus checks the JSON, so `put` gets it as a type that any
 * input takes.
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

import type { Bus } from './bus.ts';
import { type Call, Failure, type Option, textOption } from './command.ts';
import { adviseOn } from './tokens.ts';

/** The option `--client`, by which `roles` say whose join or trigger they mean. */
export const ofClient = (thing: string, roles = 'root'): Option => ({
  type: 'string',
  value: 'TOKEN',
  help: `whose ${thing} (${roles})`,
});

/**
 * Calls the bus about a join or trigger, with the client of `--client`. If root or a viewer gives none, throws an error
 * that says so in the words of rtm. If no client has the token given, the error says where to find the right token.
 */
export async function asked<Answer>(
  call: Call,
  bus: Bus,
  thing: string,
  ask: (owner: { client: string | undefined }) => Promise<Answer>,
): Promise<Answer> {
  const client = textOption(call, 'client');
  if (client !== undefined) return ask({ client }).catch(adviseOn(bus, client));
  return ask({ client }).catch((error) => {
    if (error.code !== 'bad_query') throw error;
    throw new Failure(error.code, `say whose ${thing} it is: give --client TOKEN`);
  });
}

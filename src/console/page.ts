import { z } from 'zod';
import type { Action } from '../routing/actions.ts';
import type { Role } from '../routing/caller.ts';
import { type Answer, type Call, type Input, type Route, route } from '../routing/route.ts';
import { type ApiCalls, type ApiInput, chargeOf } from './api_calls.ts';
import type { AnyFields, Refusal } from './fields.ts';
import { withRefusal } from './filled_form.ts';
import { answerError, answerPage, type Page } from './layout.ts';

type ConsolePath = `/console${string}`;

/** The parameters in a path, such as `token` in `/console/clients/:token/limit`. */
type ParamsIn<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Record<Name, string> & ParamsIn<Rest>
  : Path extends `${string}:${infer Name}`
    ? Record<Name, string>
    : unknown;

type AnyQuery = Record<string, string | undefined>;

/** The call of a page, whose path has the parameters `Params`. */
export type PageRequest<R extends Role = Role, Params = unknown> = Call<R, Params, AnyQuery>;

// The schemas of a page accept all parameters, because the API checks those that the page passes on.
const ANY_PARAMS: Input<Record<string, string>> = {
  schema: z.record(z.string(), z.string()),
  wording: { code: 'not_found', whole: 'the path cannot be read' },
};
/** A parameter that occurs twice counts as absent. */
const ANY_QUERY: Input<AnyQuery> = {
  schema: z.record(z.string(), z.string().optional().catch(undefined)),
  wording: { code: 'bad_query', whole: 'the query cannot be read' },
};

/** Makes the route of a page. */
export function page<const R extends Role, const Path extends ConsolePath>(
  path: Path,
  roles: readonly R[],
  show: (call: PageRequest<R, ParamsIn<Path>>) => Promise<Page>,
): Route {
  const params = ANY_PARAMS as Input<unknown> as Input<ParamsIn<Path>>;
  const handle = async (call: PageRequest<R, ParamsIn<Path>> & { refusal?: Refusal }) => {
    const shown = await show(call);
    const answer = await answerPage(call, call.refusal ? withRefusal(shown, call.refusal) : shown);
    // The cast is needed because the answer may have the status of an error, but the route declares only 200.
    return { ...answer, priceInCalls: chargeOf(call) } as never;
  };
  const row = { params, query: ANY_QUERY, answers: { 200: z.string() }, handle };
  return { ...route(`GET ${path}`, roles, row), page: answerError };
}

const ANY_FIELDS: Input<AnyFields> = {
  schema: z.record(z.string(), z.union([z.string(), z.array(z.string())])),
  wording: { code: 'bad_body', whole: 'the form cannot be read' },
};

interface ActionRow<R extends Role, Params, Fields> {
  action?: Action;
  /** The schema of the parameters in the path. Without it, they are checked where they are used. */
  params?: Input<Params>;
  /** The schema of the fields. Without it, fields are checked where they are used. */
  form?: Input<Fields>;
  /** Maximum bytes of the form, if it is not MAX_BODY_BYTES. */
  maxBodyBytes?: number;
  /**
   * Makes the change that the form is for. Returns the path of the page to go to, or a page or complete answer to show.
   */
  act(call: Call<R, Params, unknown, Fields>): Promise<string | Page | Answer>;
}

/** Makes the route of a form. */
export function action<
  const R extends Role,
  const Path extends ConsolePath,
  Params = ParamsIn<Path>,
  Fields = AnyFields,
>(
  path: Path,
  roles: readonly R[],
  {
    act,
    params = ANY_PARAMS as Input<unknown> as Input<Params>,
    form = ANY_FIELDS as Input<unknown> as Input<Fields>,
    ...row
  }: ActionRow<R, Params, Fields>,
): Route {
  const handle = async (call: Call<R, Params, unknown, Fields>) => {
    const next = await act(call);
    const page = typeof next === 'object' && 'title' in next && (await answerPage(call, next));
    const answer = typeof next === 'string' ? { status: 303, headers: { Location: next } } : page || next;
    return { ...answer, priceInCalls: chargeOf(call) } as never;
  };
  const answers = { 200: z.string(), 303: null };
  return { ...route(`POST ${path}`, roles, { ...row, params, form, answers, handle }), page: answerError };
}

type FormCall<Path extends string> = Call<Role, ParamsIn<Path>, unknown, AnyFields>;

interface Forwarded<Path extends string, Body> {
  /** Returns what the API is asked besides the parameters in the path of the form. */
  asked?(call: FormCall<Path>): ApiInput;
  /** Throws if the form is refused. */
  check?(call: FormCall<Path>): void;
  /** Returns the path of the page to go to, or a page to show. */
  next(call: FormCall<Path>, body: Body): string | Page;
}

/** Makes the route of a form that makes one call of the API, with the roles, parameters and action of that call. */
export function forwarding<const Path extends ConsolePath, Body = unknown>(
  api: ApiCalls,
  name: string,
  path: Path,
  { asked, check, next }: Forwarded<Path, Body>,
): Route {
  const { roles, params, action: its } = api.route(name);
  return action(path, roles, {
    ...(its && { action: its }),
    params: params as Input<ParamsIn<Path>>,
    async act(call) {
      const input = { params: call.params as Record<string, string>, ...asked?.(call) };
      check?.(call);
      return next(call, (await api.call<Body>(name, call, input)).body);
    },
  });
}

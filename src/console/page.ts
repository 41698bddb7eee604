import { z } from 'zod';
import type { Action } from '../routing/actions.ts';
import type { Role } from '../routing/caller.ts';
import { type Answer, type Call, type Input, type Route, route } from '../routing/route.ts';
import { chargeOf } from './api_calls.ts';
import type { AnyFields, Refusal } from './fields.ts';
import { withRefusal } from './filled_form.ts';
import { answerError, answerPage, type Page } from './layout.ts';

interface PageRow<R extends Role, Params, Query> {
  params?: Input<Params>;
  query?: Input<Query>;
  show(call: Call<R, Params, Query>): Promise<Page>;
}

/** Makes the route of a page. */
export function page<const R extends Role, Params, Query>(
  path: `/console${string}`,
  roles: readonly R[],
  { show, ...row }: PageRow<R, Params, Query>,
): Route {
  const handle = async (call: Call<R, Params, Query> & { refusal?: Refusal }) => {
    const shown = await show(call);
    const answer = await answerPage(call, call.refusal ? withRefusal(shown, call.refusal) : shown);
    // The cast is needed because the answer may have the status of an error, but the route declares only 200.
    return { ...answer, priceInCalls: chargeOf(call) } as never;
  };
  const answers = { 200: z.string() };
  return { ...route(`GET ${path}`, roles, { ...row, answers, handle }), page: answerError };
}

const ANY_FIELDS: Input<AnyFields> = {
  schema: z.record(z.string(), z.union([z.string(), z.array(z.string())])),
  wording: { code: 'bad_body', whole: 'the form cannot be read' },
};

interface ActionRow<R extends Role, Params, Fields> {
  action?: Action;
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
export function action<const R extends Role, Params, Fields = AnyFields>(
  path: `/console${string}`,
  roles: readonly R[],
  { act, form = ANY_FIELDS as Input<unknown> as Input<Fields>, ...row }: ActionRow<R, Params, Fields>,
): Route {
  const handle = async (call: Call<R, Params, unknown, Fields>) => {
    const next = await act(call);
    const page = typeof next === 'object' && 'title' in next && (await answerPage(call, next));
    const answer = typeof next === 'string' ? { status: 303, headers: { Location: next } } : page || next;
    return { ...answer, priceInCalls: chargeOf(call) } as never;
  };
  const answers = { 200: z.string(), 303: null };
  return { ...route(`POST ${path}`, roles, { ...row, form, answers, handle }), page: answerError };
}

// A session can end while somebody fills in a form. This script keeps the typed text in this tab, and fills in the form
// again after the login. It does the same if the form is refused because there was another login meanwhile, or if Redis
// was away when the form was sent: the page with the form may then be away too, for a while.

const FORMS = 'main form[method=post]:not(.login)';
const REFUSED = 403;
const AWAY = 503;
const KEPT = 'routemaster_typed';
const NOT_SENT = 'Not sent: the session had ended. Send it again.';
const UNKNOWN = 'It is unknown whether this was done. Look before you send it again.';
const typed = new Set();

/**
 * Keeps a typed field. Also keeps the field `was`, the digest of the values that the person saw, because the page may
 * show other values after the login.
 */
function keep(field) {
  typed.add(field);
  const { was } = field.form?.elements ?? {};
  if (was) typed.add(was);
}
document.addEventListener('input', ({ target }) => keep(target));
// A refused form is shown again with the typed text, so its fields are kept.
for (const form of document.querySelectorAll(`${FORMS}:has(.problem)`))
  for (const field of form.elements) if (field.name && field.type !== 'hidden') keep(field);
/** The form that was sent, as `keyOf` names it. */
let sent;
document.addEventListener('submit', ({ target }) => {
  sent = keyOf(target);
  // A person who logs out wants to leave nothing behind.
  if (target.matches('header form')) typed.clear();
});

/** Identifies a form of a user on all pages. Forms with the same action differ in their hidden fields. */
function keyOf(form) {
  const user = document.querySelector('header form span')?.textContent;
  const own = form.querySelectorAll('[type=hidden]:not([data-common])');
  return [user, form.getAttribute('action'), ...[...own].map(({ value }) => value)].join(' ');
}

function fillIn({ key, name, value, checked }, problem) {
  const form = [...document.querySelectorAll(FORMS)].find((each) => keyOf(each) === key);
  const isBox = checked !== undefined;
  const field = [...(form?.elements ?? [])].find(
    (each) => each.name === name && (!isBox || each.value === value),
  );
  if (!field) return;
  if (isBox) field.checked = checked;
  else field.value = value;
  typed.add(field);
  form.closest('details')?.setAttribute('open', '');
  if (form.querySelector('.problem')) return;
  form.insertAdjacentHTML('afterbegin', '<p class="problem" role="alert"></p>');
  form.firstChild.textContent = problem;
}

const kept = JSON.parse(sessionStorage.getItem(KEPT)) ?? {};
const [{ responseStatus }] = performance.getEntriesByType('navigation');
// True if the page is an answer with this status, and has no form. With 403, the session or the token of the form was
// refused. With 503, Redis is away. After other refusals, the page has the form again.
const isAnsweredBy = (status) => responseStatus === status && !document.querySelector(FORMS);
const isLogin = document.querySelector('form.login') !== null || isAnsweredBy(REFUSED);
const { problem = isLogin ? NOT_SENT : UNKNOWN, fields = [] } = kept;
const isOfSent = ({ key }) => kept.problem !== undefined || key === kept.sent;
if (isLogin) sessionStorage.setItem(KEPT, JSON.stringify({ problem, fields }));
else if (isAnsweredBy(AWAY))
  sessionStorage.setItem(KEPT, JSON.stringify({ problem, fields: fields.filter(isOfSent) }));
else sessionStorage.removeItem(KEPT);
if (kept.problem && !isLogin) for (const each of fields) fillIn(each, problem);

addEventListener('pagehide', () => {
  const own = [...typed].filter(({ form, type }) => form?.matches(FORMS) && type !== 'password');
  const fields = own.map(({ form, name, value, type, checked }) => {
    return { key: keyOf(form), name, value, ...(type === 'checkbox' && { checked }) };
  });
  if (fields.length > 0) sessionStorage.setItem(KEPT, JSON.stringify({ sent, fields }));
});

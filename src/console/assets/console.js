// The script of the console's pages, for everything beyond links and forms. The pages work without it.

const REFRESH_MS = 2000;
/** For each part of the page (an element with `data-live`), when it was fetched last, by `performance.now()`. */
const fetchedAt = new WeakMap();
const loadedAt = performance.now();

/**
 * How many times as long as usual the page waits between refreshes. This doubles when the bus refuses a refresh because
 * the user has reached the rate of calls (429), for example by many open pages. Otherwise the refreshes would leave no
 * calls for what the user does. With each refresh that succeeds, it falls a little.
 */
let slowness = 1;
const MAX_SLOWNESS = 16;
const RECOVERY = 0.95;
const TOO_MANY_CALLS = 429;
const NOT_FOUND = 404;
const UNAVAILABLE = 503;

/**
 * Returns true if it is time to refresh a part. Its interval is `data-live` ms (REFRESH_MS if that is empty), times
 * `slowness`. The timer below looks only every REFRESH_MS, so a part is refreshed at the look that is nearest to the
 * end of its interval, which may be half of REFRESH_MS early.
 */
function isDue(part) {
  const passedMs = performance.now() - (fetchedAt.get(part) ?? loadedAt);
  return passedMs > (Number(part.dataset.live) || REFRESH_MS) * slowness - REFRESH_MS / 2;
}

/** Parts that are being fetched. */
const underWay = new WeakSet();

/**
 * Returns true while nothing may be replaced: nobody looks at the page, a dialog is open, or the reader has selected
 * text or is in a form field.
 */
function isBusy() {
  if (document.hidden || document.querySelector('dialog[open]')) return true;
  if (document.activeElement?.matches('main input:not([type=hidden]), main select, main textarea'))
    return true;
  return !(getSelection()?.isCollapsed ?? true);
}

/**
 * Returns true if a part may be replaced: the page is not busy, and the part is not paused. No details may be open in
 * the part, because their text would move while somebody reads it. The keyboard focus may not be in a table, because
 * another row could move there, and Enter would open that row.
 */
function mayChange(part) {
  if (isBusy() || part.matches('[data-paused]')) return false;
  return !part.querySelector('details[open], tbody :focus-visible');
}

setInterval(() => {
  for (const part of document.querySelectorAll('[data-live]'))
    if (isDue(part) && !underWay.has(part) && mayChange(part)) window.htmx?.trigger(part, 'refresh');
}, REFRESH_MS);

document.addEventListener('htmx:before:request', ({ target }) => {
  underWay.add(target);
  fetchedAt.set(target, performance.now());
});
// While the answer was on its way, somebody may have paused the part, or opened or selected something.
document.addEventListener('htmx:after:request', (event) => {
  if (!mayChange(event.target)) event.preventDefault();
});
document.addEventListener('htmx:finally:request', ({ target, detail: { ctx } }) => {
  underWay.delete(target);
  // Without an answer there is no status.
  const status = ctx.response?.status;
  const [isRefreshed, isSlowed] = [status < 400, status === TOO_MANY_CALLS];
  if (isSlowed) slowness = Math.min(slowness * 2, MAX_SLOWNESS);
  if (isRefreshed) slowness = Math.max(slowness * RECOVERY, 1);
  // With these classes, console.css shows a message at the foot of the page. `stale`: the part could not be refreshed.
  // `away` and `gone` give the reason: Redis is away, or what the part shows is gone. `slowed`: the page is refreshed
  // less often.
  target.classList.toggle('stale', !isRefreshed && !isSlowed);
  target.classList.toggle('away', status === UNAVAILABLE);
  target.classList.toggle('gone', status === NOT_FOUND);
  document.documentElement.classList.toggle('slowed', slowness > 1);
});

/**
 * Time within which a second click on the button of a form belongs to the first. The answer to the first may take
 * longer than five seconds, while a Redis hangs.
 */
const SECOND_CLICK_MS = 10_000;
let sentAt = new WeakMap();
// A second click must not send a form twice: both may be done, and the second answer would hide the first, which may
// show a new secret.
document.addEventListener('submit', (event) => {
  if (event.target.method !== 'post') return;
  if (event.timeStamp - sentAt.get(event.target) < SECOND_CLICK_MS) event.preventDefault();
  else sentAt.set(event.target, event.timeStamp);
});
// After going back to the page, a person may send the form again at once.
window.addEventListener('pageshow', ({ persisted }) => {
  if (persisted) sentAt = new WeakMap();
});

// Shows the buttons that need this script.
document.documentElement.classList.add('js');

/** Copies the text in front of a button to the clipboard. */
async function copy(button) {
  const text = button.previousElementSibling.textContent;
  // Browsers have no `clipboard` on a page that came by plain http.
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const field = document.body.appendChild(document.createElement('textarea'));
    field.value = text;
    field.select();
    document.execCommand('copy');
    field.remove();
  }
  button.textContent = 'Copied';
  setTimeout(() => (button.textContent = 'Copy'), REFRESH_MS);
}

/** Stops refreshing a part, or goes on with it. */
function pause(button) {
  const isPaused = document.getElementById(button.dataset.pause).toggleAttribute('data-paused');
  button.textContent = isPaused ? 'Go on' : 'Pause';
}

document.addEventListener('click', ({ target }) => {
  if (target.matches('[data-copy]')) copy(target).catch(() => (target.textContent = 'Not copied'));
  if (target.matches('[data-pause]')) pause(target);
});

/** Shows exact times (the tooltips of `<time>` elements) in the reader's time zone, and names the zone. */
function localize(root) {
  for (const time of root.querySelectorAll('time[datetime]'))
    time.title = new Date(time.dateTime).toLocaleString(undefined, {
      dateStyle: 'medium',
      timeStyle: 'long',
    });
}
localize(document);
document.addEventListener('htmx:after:swap', () => localize(document));

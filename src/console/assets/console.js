// What the pages of the console do beyond links and forms. They work without it.

const REFRESH_MS = 2000;

/** Parts that are being fetched. */
const underWay = new WeakSet();

/** Nothing is replaced while nobody looks, or while the reader has selected text or is about to answer. */
function isBusy() {
  if (document.hidden || document.querySelector('dialog[open]')) return true;
  if (document.activeElement?.matches('main input:not([type=hidden]), main select, main textarea'))
    return true;
  return !(getSelection()?.isCollapsed ?? true);
}

setInterval(() => {
  if (isBusy()) return;
  for (const part of document.querySelectorAll('[data-live]')) {
    if (!underWay.has(part)) window.htmx?.trigger(part, 'refresh');
  }
}, REFRESH_MS);

document.addEventListener('htmx:before:request', ({ target }) => underWay.add(target));
document.addEventListener('htmx:finally:request', ({ target }) => underWay.delete(target));

/** Exact times in the reader's zone. */
function localize(root) {
  for (const time of root.querySelectorAll('time[datetime]'))
    time.title = new Date(time.dateTime).toLocaleString();
}
localize(document);
document.addEventListener('htmx:after:swap', () => localize(document));

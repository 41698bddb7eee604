import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html } from '../src/html.ts';

test('text is escaped, pieces are not, lists are joined, nothing is left out', () => {
  const name = `<script>"&'`;
  assert.equal(
    html`<b title="${name}">${name}</b>`.text,
    '<b title="&lt;script&gt;&quot;&amp;&#39;">&lt;script&gt;&quot;&amp;&#39;</b>',
  );
  const items = ['<', '>'].map((each) => html`<li>${each}</li>`);
  assert.equal(
    html`<ul>${items}${false}${null}${undefined}${0}</ul>`.text,
    '<ul><li>&lt;</li><li>&gt;</li>0</ul>',
  );
});

test('characters that turn the direction of text, or control something, are shown as replaced', () => {
  assert.equal(html`${'a\u202eb\u0000c\u2066d\ne'}`.text, 'a\ufffdb\ufffdc\ufffdd\ne');
});

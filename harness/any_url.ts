import fc from 'fast-check';

/** Any https URL. `fc.webUrl()` makes more kinds of URLs, but takes 1.2 s of CPU when it is first called. */
export const anyUrl = fc.stringMatching(
  /^https:\/\/([a-z\d]{1,16}\.){1,3}[a-z]{2,8}(\/([\w!$&'()*+,.:;=@~-]|%F0%9F%98%80){0,8}){0,4}(\?[\w&=%-]{0,16})?$/,
);

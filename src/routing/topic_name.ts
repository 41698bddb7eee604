export const TOPIC_NAME = /^[a-z0-9_]{1,64}$/;
export const TOPIC_NAME_RULE = '1 to 64 characters of a-z, 0-9 and _';

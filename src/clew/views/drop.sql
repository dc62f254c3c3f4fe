-- The tables of the views are taken away before those of another schema are made.

DROP TABLE IF EXISTS view;
DROP TABLE IF EXISTS listing;
DROP TABLE IF EXISTS touched;
DROP TABLE IF EXISTS spending;
DROP TABLE IF EXISTS passage;
DROP TABLE IF EXISTS speaking;
--lite DROP TABLE IF EXISTS words;

-- Effects: budgets and holds are rights of their own, which whoever may administer has had; agents are named by project.

UPDATE granted SET rights = rights || ' budget hold'
WHERE replace(' ' || rights || ' ', ' administer ', '') <> ' ' || rights || ' ';
UPDATE credential SET scopes = scopes || ' budget hold'
WHERE replace(' ' || scopes || ' ', ' administer ', '') <> ' ' || scopes || ' ';

CREATE TABLE agent_by_name AS SELECT * FROM agent;
DROP TABLE agent;
CREATE TABLE agent (
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    runtime TEXT NOT NULL,
    model TEXT NOT NULL,
    instructions TEXT NOT NULL,
    tools TEXT NOT NULL,
    owner TEXT NOT NULL,
    place TEXT NOT NULL,
    rules TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (project, name)
);
INSERT INTO agent (project, name, runtime, model, instructions, tools, owner, place, rules, at)
SELECT project, name, runtime, model, instructions, tools, owner, place, rules, at FROM agent_by_name;
DROP TABLE agent_by_name;

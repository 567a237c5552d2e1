//! What can be wrong in a question, and its sentence.

use super::*;

fn wrong(text: &str) -> String {
    Question::read(text, Spelling::Json, None).unwrap_err()
}

fn with_user(user: &str) -> String {
    wrong(&format!(r#"{{"kinds":[{{"name":"v100","count":2}},{{"name":"k80","count":0}}],"users":[{user}]}}"#))
}

fn with_kind(kind: &str) -> String {
    wrong(&format!(r#"{{"kinds":[{kind}],"users":[{{"name":"a","rates":[1]}}]}}"#))
}

#[test]
fn wrong_users_are_sentences() {
    let check = |user: &str, expect: &str| assert_eq!(with_user(user), expect);
    check(
        r#"{"name":"a","rates":[1]}"#,
        "rates of user 'a' has 1 numbers for 2 kinds; expected one for each, in their order",
    );
    check(
        r#"{"name":"a","rates":[1,-2]}"#,
        "rates of user 'a' on 'k80' is -2; expected 0, or a number from 1e-9 to 1e12",
    );
    check(
        r#"{"name":"a","weight":0,"rates":[1,1]}"#,
        "weight of user 'a' is 0; expected a number above 0, from 1e-9 to 1e12",
    );
    check(
        r#"{"name":"a","wieght":1,"rates":[1,1]}"#,
        "users[0] has an unknown field 'wieght' (did you mean weight?); expected name, tenant, rates, weight, gpus_max, gang, jobs, floor, steps_left",
    );
    check(
        r#"{"name":"a","rates":[1,1],"gpus_max":0.0001}"#,
        "gpus_max of user 'a' is 0.0001; expected at most 3 decimals",
    );
    check(r#"{"name":"a","rates":[1,1],"gpus_max":"x"}"#, "gpus_max of user 'a' is \"x\"; expected a number");
    check(r#"{"rates":[1,1]}"#, "the name of users[0] is missing; give \"name\"");
    check(
        r#"{"name":"a","rates":[1,1]},{"name":"a","rates":[1,1]}"#,
        "two users are called 'a'; give every user a name of its own",
    );
    assert!(with_user(r#"{"name":"a","rates":[0,1]}"#).contains("a rate of 0 on every kind of which there is a GPU"));
    assert!(with_user(r#"{"name":"a","rates":[NaN,1]}"#).contains("NaN is no number in JSON"));
    assert!(with_user(r#"{"name":"a","rates":[1e999,1]}"#).contains("number out of range"));
}

#[test]
fn wrong_kinds_are_sentences() {
    assert_eq!(
        with_kind(r#"{"name":"v100","count":-1}"#),
        "the count of kind 'v100' is -1; expected a whole number from 0 to 1000000"
    );
    assert_eq!(
        with_kind(r#"{"name":"v100","count":0}"#),
        "there are no GPUs; give at least one kind a count of 1 or more"
    );
    assert_eq!(with_kind(r#"{"name":"v100"}"#), "the count of kind 'v100' is missing; give \"count\"");
    assert!(wrong("[]").starts_with("the question is []"));
    assert!(wrong("{").starts_with("this is no JSON"));
    assert!(wrong(r#"{"kinds":[],"users":[]}"#).starts_with("kinds is []"));
}

#[test]
fn fractions_are_counted_in_parts() {
    let parts = |most: &str| {
        let text = format!(
            r#"{{"kinds":[{{"name":"v100","count":2}}],"users":[{{"name":"a","rates":[1],"gpus_max":{most}}}]}}"#
        );
        Question::read(&text, Spelling::Json, None).unwrap().parts()
    };
    assert_eq!((parts("2"), parts("1.5"), parts("0.25"), parts("0.125")), (1.0, 10.0, 100.0, 1000.0));
}

fn csv(text: &str) -> Read<Question> {
    Question::read(text, Spelling::Csv, None)
}

#[test]
fn csv_says_what_json_says() {
    let json = r#"{"kinds":[{"name":"v100","count":8,"hourly_cost":2.5},{"name":"odd, one","count":4}],
        "users":[{"name":"ann","tenant":"t","weight":2,"rates":[4,1]},{"name":"bob","tenant":"t","rates":[2,0],
        "gpus_max":4,"gang":2,"jobs":3,"floor":1.5,"steps_left":100}]}"#;
    let text = "\u{feff}user,tenant,weight,gpus_max,gang,jobs,floor,steps_left,v100,\"odd, one\"\r\n\
        gpus,,,,,,,,8,4\nhourly_cost,,,,,,,,2.5,\n\nann,t,2,,,,,,4,1\n bob , t ,,4,2,3,1.5,100,2,\n";
    let expect = Question::read(json, Spelling::Json, None).unwrap();
    assert_eq!(format!("{:?}", csv(text).unwrap()), format!("{expect:?}"));
    assert_eq!((expect.users[1].weight, expect.users[1].claim()), (2.0, 1.0));
    let apart = Question::read("user,V100,k80\nann,4,1\n", Spelling::Csv, Some("k80=2, v100:8")).unwrap();
    assert_eq!((apart.kinds[0].count, apart.kinds[1].count), (8, 2));
}

#[test]
fn wrong_csv_is_a_sentence_with_its_line() {
    let check = |text: &str, expect: &str| {
        let sentence = csv(text).unwrap_err();
        assert!(sentence.contains(expect), "'{sentence}' does not say '{expect}'");
    };
    check("", "there is nothing in it; expected JSON, or CSV with a header such as");
    check("user,v100\n", "there are no counts of GPUs; give a first line such as gpus,8,8");
    check("user,v100\ngpus,2\n", "there is no user in it");
    check("name,v100\ngpus,2\na,1\n", "line 1: there is no column 'user'");
    check("user,weight\ngpus,\na,1\n", "line 1: there is no column of a kind");
    check("user,v100,v100\n", "line 1: column 'v100' occurs twice");
    check("user,v100,\ngpus,2,\n", "line 1: column 3 has no name");
    check("user,v100\ngpus,2\na,1\nb,1,2\n", "line 4: there are 3 cells under 2 columns");
    check("user,v100\ngpus,2\n\n\na\n", "line 5: there are 1 cells under 2 columns");
    check("user,wieght,v100\ngpus,,2\na,1,1\n", "column 'wieght' (did you mean weight?) is no field of a user");
    check("user,v100\ngpus,2\na,NaN\n", "line 3: rates of user 'a' on 'v100' is 'NaN'; expected a number");
    check("user,v100\ngpus,2\na,-1\n", "line 3: rates of user 'a' on 'v100' is -1; expected 0, or a number");
    check("user,v100\ngpus,many\na,1\n", "line 2: the count of kind 'v100' is 'many'; expected a number");
    check("user,v100\ngpus,-2\na,1\n", "the count of kind 'v100' is -2");
    check("user,v100\ngpus,2\n,1\n", "line 3: the user has no name");
    check("user,v100\ngpus,2\n\"a,1\n", "line 3: a quote is opened and never closed");
    check("user,v100,Tesla V100\ngpus,2,2\na,1,1\n", "'v100' and 'Tesla V100' are the same kind; give it once");
}

#[test]
fn wrong_jobs_and_tenants_are_sentences() {
    let check = |lines: &str, expect: &str| {
        let sentence =
            csv(&format!("user,tenant,weight,gpus_max,gang,jobs,floor,v100\ngpus,,,,,,,4\n{lines}")).unwrap_err();
        assert!(sentence.contains(expect), "'{sentence}' does not say '{expect}'");
    };
    check("a,t,1,,,,,1\nb,t,2,,,,,1\n", "tenant 't' has weight 1 (user 'a') and 2 (user 'b')");
    check("a,,1,,,,,1\nb,a,2,,,,,1\n", "tenant 'a' has weight 1 (user 'a') and 2 (user 'b')");
    check("a,,,,8,,,1\n", "user 'a' runs gangs of 8 GPUs and there are at most 4 of a kind that it fits on");
    check("a,,,1,2,,,1\n", "gpus_max of user 'a' is 1, less than one gang of 2");
    check("a,,,,0,,,1\n", "gang of user 'a' is 0; expected a whole number from 1 to");
    check("a,,,,,1.5,,1\n", "jobs of user 'a' is 1.5; expected a whole number from 1 to");
    check("a,,,,,,-1,1\n", "floor of user 'a' is -1; expected 0 or more");
    check("a,,0,,,,,1\n", "weight of user 'a' is 0; expected a number above 0");
}

#[test]
fn wrong_counts_are_sentences() {
    let check = |counts: &str, expect: &str| {
        let sentence = Question::read("user,v100\na,1\n", Spelling::Csv, Some(counts)).unwrap_err();
        assert!(sentence.starts_with("--gpus: ") && sentence.contains(expect), "'{sentence}' does not say '{expect}'");
    };
    check("v100", "'v100' names no number of GPUs");
    check("v100:x", "'x' in 'v100:x' is no number of GPUs");
    check("v100:-1", "the count of kind 'v100' is -1");
    check("v100:1,v100:1", "two kinds are called 'v100'");
    check("v100:1,k80:1", "there is no column 'k80'; the kinds are v100");
    let both = Question::read("user,v100\ngpus,1\na,1\n", Spelling::Csv, Some("v100:1")).unwrap_err();
    assert_eq!(both, "--gpus: there is a line 'gpus' in the file too; give one of the two");
}
